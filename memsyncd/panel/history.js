// The changes of notes as a timeline; one change with both texts side by side, and undo.

import { count, fill, h, when } from "./dom.js";
import { report, View } from "./view.js";
import { offerUndo, undoChange } from "./write.js";

const PAGE = 50;
const MOST = 200;
/** How many revisions before and after a revision are searched for others of its change set. */
const REACH = 100;
/** The command in the history for a note that memsyncd saw for the first time. */
const FIRST_SEEN = "first_seen";

export class HistoryView extends View {
  constructor() {
    super();
    this.timeline = h("ol", { class: "timeline" });
    this.change = h("section", { class: "change", "aria-live": "polite" });
    /** @type {any[]} */
    this.revisions = [];
    this.listedPlace = "";
  }

  connectedCallback() {
    if (!this.firstChild) fill(this, h("div", { class: "past" }, h("section", {}, this.timeline), this.change));
  }

  /** @param {AbortSignal} signal */
  async read(signal) {
    const { path, revision } = this.place.values;
    // Pages that were read stay; only a new place begins with one page.
    const place = `${this.place.workspace} ${path ?? ""}`;
    const limit = place === this.listedPlace ? Math.min(MOST, Math.max(PAGE, this.revisions.length)) : PAGE;
    const found = await this.ask("history", { limit, ...(path ? { path } : {}) }, signal);
    const last = found.revisions.at(-1)?.revision ?? 0;
    const older = place === this.listedPlace ? this.revisions.filter((one) => one.revision < last) : [];
    this.revisions = [...found.revisions, ...older];
    this.listedPlace = place;
    this.showTimeline(found.revisions.length === limit);
    const chosen = revision ? Number(revision) : this.revisions[0]?.revision;
    if (chosen) await this.showChange(chosen, signal);
    else fill(this.change, h("p", {}, "No change was recorded yet."));
  }

  /** @param {boolean} hasMore */
  showTimeline(hasMore) {
    const { path } = this.place.values;
    const shown = Number(this.place.values.revision ?? this.revisions[0]?.revision ?? 0);
    const makeEntry = (/** @type {any} */ one) => h("a", {
      class: "entry", href: this.href("history", { path, revision: one.revision }), "aria-current": one.revision === shown ? "true" : null,
    }, `${act(one)} ${one.old_path ? `${one.old_path} → ` : ""}${one.path}`);
    // The changes of one step are one entry.
    /** @type {any[][]} */
    const groups = [];
    for (const one of this.revisions) {
      const last = groups.at(-1);
      if (last && last[0].change_set === one.change_set) last.push(one);
      else groups.push([one]);
    }
    const items = groups.map(([first, ...others]) => h("li", {}, makeEntry(first), h("p", { class: "quiet" }, when(first.at), ` · ${writer(first)}#${first.change_set}`),
      others.length > 0 && h("details", { open: others.some((one) => one.revision === shown) }, h("summary", { "aria-label": `${count(others.length, "more note")} of step ${first.change_set}` }, `and ${count(others.length, "more note")}`), h("ul", {}, others.map((one) => h("li", {}, makeEntry(one)))))));
    const more = h("button", { type: "button", onclick: () => this.readMore() }, "Older changes");
    fill(this.timeline, path && h("li", {}, h("a", { class: "chip", href: this.href("history"), "aria-label": "Show the changes of all notes" }, `${path} ×`)),
      items, hasMore && h("li", {}, more));
  }

  async readMore() {
    const { path } = this.place.values;
    try {
      const found = await this.ask("history", { limit: PAGE, before: this.revisions.at(-1).revision, ...(path ? { path } : {}) });
      this.revisions.push(...found.revisions);
      this.showTimeline(found.revisions.length === PAGE);
    } catch (error) {
      report(error);
    }
  }

  /** @param {number} revision @param {AbortSignal} signal */
  async showChange(revision, signal) {
    const [found, near] = await Promise.all([this.ask("diff", { revision }, signal),
      this.ask("history", { limit: MOST, before: revision + REACH }, signal)]);
    const info = [...this.revisions, ...near.revisions].find((one) => one.revision === revision);
    const together = near.revisions.filter((/** @type {any} */ one) => one.change_set === info?.change_set);
    const undo = h("button", { type: "button", class: "undo", onclick: () => this.undo({ revision }) }, `Undo this change${info?.undo === "confirm" ? ": delete the file …" : ""} (u)`);
    // Changes of other programs that memsyncd found at the same time are no single action.
    const undoAll = together.length > 1 && together[0].client && h("button", { type: "button", onclick: () => this.undo({ change_set: info.change_set }) }, `Undo all ${together.length} changes of this step`);
    const isFirst = info?.command === FIRST_SEEN;
    fill(this.change, h("h2", {}, h("a", { href: this.noteHref(found.path) }, found.path)), info && h("p", { class: "quiet" }, when(info.at), isFirst ? " · first seen" : ` · ${act(info)} by ${info.client || "another program"}`),
      isFirst ? h("p", { class: "quiet" }, "The note was there when memsyncd first saw it, so there is no change to undo.")
        : info?.is_kept !== false ? h("p", { class: "tools" }, undo, undoAll) : h("p", { class: "quiet" }, "The texts of this change are no longer kept."),
      together.length > 1 && h("details", {}, h("summary", {}, "Changed in the same step"), h("ul", {}, together.map((/** @type {any} */ one) =>
        h("li", {}, h("a", { href: this.href("history", { path: this.place.values.path, revision: one.revision }) }, one.path))))), makeDiff(found.diff));
  }

  /** @param {{revision?: number, change_set?: number}} what */
  async undo(what) {
    try {
      const done = await undoChange(this, what);
      if (!done) return;
      const paths = done.paths.map((/** @type {any} */ one) => one.path);
      const named = paths.length > 5 ? `${paths.slice(0, 5).join(", ")} and ${paths.length - 5} more` : paths.join(", ");
      offerUndo(this, `undone: ${named || "nothing had to change"}`, done.change_set);
    } catch (error) {
      report(error);
    }
  }
}

/** The writer's command, or the kind of another program's change. @param {any} one A revision. */
function act(one) {
  if (one.command === FIRST_SEEN) return "first seen";
  if (one.command !== "external") return one.command;
  if (one.old_path) return "rename";
  return one.old_digest === null ? "create" : one.new_digest === null ? "delete" : "edit";
}

/** @param {any} one A revision. */
function writer(one) {
  return one.command === FIRST_SEEN ? "" : `${one.client || "another program"} · `;
}

/** Show a unified diff with both texts side by side. @param {string} diff */
function makeDiff(diff) {
  if (!diff) return h("p", {}, "Both texts are equal.");
  const rows = [];
  /** @type {[number, string][]} */
  let removed = [];
  let oldLine = 0, newLine = 0;
  const flush = () => {
    for (const [number, text] of removed) rows.push(makeRow(number, text, null, "", "removed"));
    removed = [];
  };
  for (const line of diff.split("\n")) {
    const hunk = /^@@ -(\d+)(?:,\d+)? \+(\d+)/.exec(line);
    if (hunk) {
      flush();
      [oldLine, newLine] = [Number(hunk[1]), Number(hunk[2])];
      rows.push(h("tr", { class: "hunk" }, h("td", { colspan: 4 }, line)));
    } else if (line.startsWith("--- ") || line.startsWith("+++ ") || !oldLine && !newLine) {
      continue;
    } else if (line.startsWith("-")) {
      removed.push([oldLine++, line.slice(1)]);
    } else if (line.startsWith("+")) {
      const [number, text] = removed.shift() ?? [null, ""];
      rows.push(makeRow(number, text, newLine++, line.slice(1), number === null ? "added" : "changed"));
    } else if (line.startsWith(" ")) {
      flush();
      rows.push(makeRow(oldLine++, line.slice(1), newLine++, line.slice(1), ""));
    }
  }
  flush();
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "The change" }, h("table", { class: "diff" },
    h("colgroup", {}, ["number", "", "number", ""].map((name) => h("col", { class: name }))),
    h("thead", { class: "hidden" }, h("tr", {}, ["line before", "before", "line after", "after"].map((text) => h("th", { scope: "col" }, text)))), h("tbody", {}, rows)));
}

/** @param {number | null} oldLine @param {string} before @param {number | null} newLine @param {string} after @param {string} kind */
function makeRow(oldLine, before, newLine, after, kind) {
  const isOld = oldLine !== null && kind, isNew = newLine !== null && kind;
  return h("tr", { class: kind || "same" }, h("td", { class: "number" }, oldLine ?? ""), h("td", { class: isOld ? "old" : "" }, isOld ? h("del", {}, before) : before),
    h("td", { class: "number" }, newLine ?? ""), h("td", { class: isNew ? "new" : "" }, isNew ? h("ins", {}, after) : after));
}
