// The first use: how a folder becomes a workspace, and the folders of this machine that have notes.

import { command, count, fill, h, table } from "./dom.js";
import { call } from "./rpc.js";
import { makeHref, report, View } from "./view.js";

export class StartView extends View {
  constructor() {
    super();
    this.path = h("input", { name: "path", required: true, size: 40, placeholder: "/home/you/project", autocomplete: "off", spellcheck: "false" });
    this.places = h("section", { "aria-live": "polite" });
  }

  connectedCallback() {
    if (this.firstChild) return;
    const form = h("form", { class: "ask" }, h("label", {}, "Folder", this.path), h("button", { type: "submit" }, "Watch this folder"));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.add({ path: this.path.value.trim() });
    });
    fill(this, h("h2", {}, "Watch a folder"), h("p", {}, "A workspace is a folder with a ", h("code", {}, "MEMORY.md"), " or a folder ", h("code", {}, ".memories"),
      ", or a vault of notes. memsyncd reads its notes and writes new ones to it."), form,
    h("p", {}, "The same in a terminal: ", command("memsyncd init PATH"), " makes a first note, ", command("memsyncd add PATH"),
      " watches a folder. This page shows it as soon as it is watched. ", h("a", { href: makeHref("status", "") }, "State of the daemon")), this.places);
  }

  /** @param {AbortSignal} signal */
  async read(signal) {
    const found = await call("workspace.discover", {}, signal);
    const rows = found.places.map((/** @type {any} */ one) => [one.name, one.what, h("code", {}, one.path), `${one.notes.toLocaleString()}${one.is_complete ? "" : " or more"}`,
      one.workspace ? `watched as ${one.workspace}` : one.add ? h("button", { type: "button", "aria-label": `Watch ${one.path}`, onclick: () => this.add(one.add) }, "Watch") : one.refusal || one.command && command(one.command)]);
    fill(this.places, h("h2", {}, "Notes on this machine"), rows.length ? table("Notes on this machine", ["Name", "Made by", "Where", "Notes", ""], rows)
      : h("p", { class: "quiet" }, "No notes of agents or editors were found where they are usually kept."));
  }

  /** @param {Record<string, unknown>} params */
  async add(params) {
    try {
      const added = await call("workspace.add", params);
      const ids = added.workspaces.map((/** @type {any} */ one) => one.id);
      report(`watched: ${ids.length === 1 ? ids[0] : count(ids.length, "workspace")}`);
      document.dispatchEvent(new CustomEvent("workspaces"));
      if (ids[0]) location.hash = makeHref("notes", ids[0]);
    } catch (error) {
      report(error);
    }
  }
}
