// The problems of notes and folders with their remedies, and the findings of the doctor on request.

import { count, fill, h, notePath, table } from "./dom.js";
import { report, View } from "./view.js";

const SHOWN = 500;

export class ProblemsView extends View {
  constructor() {
    super();
    this.list = h("section");
    this.findings = h("section", { "aria-live": "polite" });
    this.verify = h("input", { type: "checkbox" });
    this.run = h("button", { type: "button", onclick: () => this.check() }, "Check now");
  }

  connectedCallback() {
    if (this.firstChild) return;
    fill(this, h("h2", {}, "Problems of notes and folders"), this.list, h("h2", {}, "Doctor"),
      h("p", { class: "tools" }, this.run, h("label", {}, this.verify, "parse every note again and compare it with the index")), this.findings);
  }

  /** @param {import("./view.js").Place} place */
  async open(place) {
    if (place.workspace !== this.place.workspace) fill(this.findings);
    await super.open(place);
  }

  /** @param {AbortSignal} signal */
  async read(signal) {
    const [found, dangling] = await Promise.all([this.ask("problems", {}, signal), this.ask("links", { dangling: true, limit: SHOWN }, signal)]);
    const rows = found.problems.slice(0, SHOWN).map((/** @type {any} */ one) => [h("a", { class: "entry", href: this.noteHref(one.path, one.line) }, one.line ? `${one.path}:${one.line}` : one.path),
      one.problem, one.hint ?? "", h("code", {}, one.code)]);
    const left = found.problems.length - rows.length;
    fill(this.list, rows.length ? table("Problems", ["Where", "Problem", "Remedy", "Code"], rows) : h("p", {}, "No problems."),
      left > 0 && h("p", { class: "quiet" }, `${count(left, "more problem")}: memsyncd problems`),
      dangling.links.length > 0 && [h("h2", {}, "Links that lead to no note"), table("Links that lead to no note", ["Where", "Link", "Remedy"], dangling.links.map((/** @type {any} */ one) => {
        const path = notePath(one.source);
        return [h("a", { class: "entry", href: this.noteHref(path, one.lines[0]) }, `${path}:${one.lines[0]}`), one.target,
          one.is_outside ? "it leads out of the workspace" : one.similar ? ["did you mean ", h("a", { href: this.noteHref(one.similar) }, one.similar), "?"] : "write the note, or correct the name"];
      }))]);
  }

  async check() {
    const { workspace } = this.place;
    this.run.disabled = true;
    fill(this.findings, h("p", { class: "quiet" }, "Checking…"));
    try {
      const found = await this.ask("doctor", { verify: this.verify.checked });
      if (workspace === this.place.workspace) this.showFindings(found.findings);
    } catch (error) {
      fill(this.findings);
      report(error);
    } finally {
      this.run.disabled = false;
    }
  }

  /** @param {any[]} findings */
  showFindings(findings) {
    const order = ["error", "warning", "info", "ok"];
    const rows = findings.toSorted((one, other) => order.indexOf(one.level) - order.indexOf(other.level))
      .map((one) => [h("span", { class: `level ${one.level}` }, one.level), one.check, one.what, one.where, one.remedy]);
    const bad = findings.filter((one) => one.level === "error" || one.level === "warning").length;
    fill(this.findings, h("p", {}, bad ? `${count(bad, "finding")} to act on` : "Everything is in order."),
      table("Findings", ["Level", "Check", "What", "Where", "Remedy"], rows));
  }
}
