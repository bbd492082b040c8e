// The changes of notes as a timeline; one change with both texts side by side, and undo.

import { command, count, empty, fill, h, lead, nameNote, when } from "./dom.js";
import { report, View } from "./view.js";
import { ask, offerUndo, undoChange } from "./write.js";

const PAGE = 50;
const MOST = 200;
/** How many revisions before and after a revision are searched for others of its change set. */
const REACH = 100;
/** The command in the history for a note that memsyncd saw for the first time. */
const FIRST_SEEN = "first_seen";
/** Every program but memsyncd, in the choice of a writer. */
const OTHERS = "another program";
/** The acts of the history in words. @type {Record<string, string>} */
const ACTS = {
  first_seen: "First seen:", "note.add": "Remembered in", "note.add_many": "Remembered in", create: "Wrote", str_replace: "Edited", insert: "Edited", delete: "Deleted", rename: "Moved", undo: "Undid a change of",
  clear: "Cleared", archive: "Archived in", cleanup: "Archived in", "archive.restore": "Restored in", promote: "Promoted to", capture: "Recorded in", import: "Imported", index_project: "Summarised the project in", triage: "Made a task in",
  "topic.create": "New topic", "topic.patch": "Changed", "topic.archive": "Archived", "topic.restore": "Restored", "field.append": "Added a value to", "task.checkpoint": "Checkpoint in", "task.summarize": "Summary in", "session.start": "Session began in", "session.end": "Session ended in",
  "memory.set": "Changed", "memory.done": "Done in", "memory.relate": "Linked in", "memory.forget": "Forgot in", "memory.replace": "Replaced in",
};
const DAY = new Intl.DateTimeFormat(undefined, { weekday: "long", year: "numeric", month: "long", day: "numeric" });
const TIME = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });

export class HistoryView extends View {
  constructor() {
    super();
    this.timeline = h("ol", { class: "timeline" });
    this.change = h("section", { class: "change", "aria-live": "polite" });
    this.writer = h("select", { "aria-label": "Only changes of this writer", onchange: () => this.filterBy() });
    /** @type {Set<string>} */
    this.writers = new Set([OTHERS]);
    /** @type {HTMLElement | null} */
    this.filter = null;
    /** @type {HTMLElement | null} */
    this.frame = null;
    /** The first and the last day. */
    this.days = ["from", "to"].map((name) => h("input", { type: "date", "aria-label": `Only changes ${name} this day`, onchange: () => this.filterBy() }));
    this.wanted = h("input", { type: "search", placeholder: "Note or folder", "aria-label": "Only changes of this note or folder", autocomplete: "off", spellcheck: "false" });
    /** @type {any[]} */
    this.revisions = [];
    this.listedPlace = "";
  }

  connectedCallback() {
    if (this.firstChild) return;
    this.filter = h("form", { class: "tools filter" }, this.wanted, h("label", {}, "by", this.writer), h("span", { class: "days" }, h("label", {}, "from", this.days[0]), h("label", {}, "to", this.days[1])), h("button", { type: "submit", class: "hidden", tabindex: -1 }, "Show"));
    this.filter.addEventListener("submit", (event) => {
      event.preventDefault();
      this.filterBy();
    });
    this.frame = h("div", { class: "past" }, h("section", {}, this.timeline), this.change);
    fill(this, lead("Every change of a note, whoever made it, with both texts. Each can be undone."), this.filter, this.frame);
  }

  filterBy() {
    const [since, until] = this.days.map((day) => day.value);
    location.hash = this.href("history", { path: this.wanted.value.trim(), by: this.writer.value, since, until });
  }

  /** @param {AbortSignal} signal */
  async read(signal) {
    const { revision, ...filter } = this.place.values;
    // Pages that were read stay; only a new place begins with one page.
    const place = JSON.stringify([this.place.workspace, filter]), isFiltered = Object.values(filter).some(Boolean);
    const limit = place === this.listedPlace ? Math.min(MOST, Math.max(PAGE, this.revisions.length)) : PAGE;
    const found = await this.ask("history", { limit, ...this.readFilter() }, signal);
    const last = found.revisions.at(-1)?.revision ?? 0;
    const older = place === this.listedPlace ? this.revisions.filter((one) => one.revision < last) : [];
    this.revisions = [...found.revisions, ...older];
    this.listedPlace = place;
    this.showTimeline(found.revisions.length === limit);
    const chosen = revision ? Number(revision) : this.revisions[0]?.revision;
    if (document.activeElement !== this.wanted) this.wanted.value = filter.path ?? "";
    this.days.forEach((day, at) => {
      if (document.activeElement !== day) day.value = (at ? filter.until : filter.since) ?? "";
    });
    this.frame?.toggleAttribute("data-chosen", Boolean(revision));
    if (this.filter) this.filter.hidden = !isFiltered && !this.revisions.length;
    if (chosen) await this.showChange(chosen, signal);
    else if (isFiltered) fill(this.change, empty("No change passes the filters.", h("a", { class: "button", href: this.href("history") }, "Show all changes")));
    else fill(this.change, empty("No change was recorded yet.", h("p", {}, "Every change of a note appears here, whoever makes it: you, an agent, or an editor. Each shows both texts and can be undone."),
      h("p", {}, "In a terminal: ", command("memsyncd history"))));
  }

  /** The note or folder, the writer and the days whose changes are listed. */
  readFilter() {
    const { path, by, since, until } = this.place.values;
    return { ...(path ? { path } : {}), ...(since ? { since } : {}), ...(until ? { until } : {}), ...(by ? { writer: by === OTHERS ? "" : by } : {}) };
  }

  /** Offer the writers of the changes that were read. */
  showWriters() {
    const { by = "" } = this.place.values;
    for (const one of this.revisions) this.writers.add(one.client || OTHERS);
    if (by) this.writers.add(by);
    fill(this.writer, h("option", { value: "" }, "everybody"), [...this.writers].map((name) => h("option", { value: name, selected: name === by }, nameWriter(name))));
  }

  /** @param {boolean} hasMore */
  showTimeline(hasMore) {
    const filter = { ...this.place.values, revision: "" }, { path } = this.place.values;
    this.showWriters();
    const shown = Number(this.place.values.revision ?? this.revisions[0]?.revision ?? 0);
    const makeEntry = (/** @type {any} */ one) => h("a", {
      class: "entry", href: this.href("history", { ...filter, revision: one.revision }), "aria-current": one.revision === shown ? "true" : null, title: one.path,
    }, describe(one));
    // The changes of one step are one entry.
    /** @type {any[][]} */
    const groups = [];
    for (const one of this.revisions) {
      const last = groups.at(-1);
      if (last && last[0].change_set === one.change_set) last.push(one);
      else groups.push([one]);
    }
    let day = "";
    const items = groups.flatMap(([first, ...others]) => {
      const before = day;
      day = DAY.format(first.at * 1000);
      return [day !== before && h("li", { class: "day" }, day), h("li", {}, makeEntry(first), h("p", { class: "quiet" }, TIME.format(first.at * 1000), writer(first) && ` · ${writer(first)}`),
        others.length > 0 && h("details", { open: others.some((one) => one.revision === shown) }, h("summary", { "aria-label": `${count(others.length, "more note")} of step ${first.change_set}` }, `and ${count(others.length, "more note")}`), h("ul", {}, others.map((one) => h("li", {}, makeEntry(one))))))];
    });
    const more = h("button", { type: "button", onclick: () => this.readMore() }, "Older changes");
    fill(this.timeline, path && h("li", {}, h("a", { class: "chip", "aria-current": "true", href: this.href("history", { ...filter, path: "" }), "aria-label": "Show the changes of all notes" }, `only ${path} ×`)),
      items, hasMore && h("li", {}, more));
  }

  async readMore() {
    try {
      const found = await this.ask("history", { limit: PAGE, before: this.revisions.at(-1).revision, ...this.readFilter() });
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
    const name = nameNote(found.path), isDeleting = found.old_digest === null;
    const effect = isDeleting ? `The file ${found.path} is deleted.` : found.new_digest === null ? `The file ${found.path} comes back.` : info?.old_path ? `${name} moves back to ${info.old_path}.` : `${name} gets its text from before this change.`;
    const undo = h("button", { type: "button", class: `undo ${isDeleting ? "danger" : ""}`, onclick: () => this.undo({ revision, ...(isDeleting ? { confirm: true } : {}) }, effect, isDeleting) }, isDeleting ? "Undo: delete the file… (u)" : "Undo this change… (u)");
    // Changes of other programs that memsyncd found at the same time are no single action.
    const undoAll = together.length > 1 && together[0].client && h("button", { type: "button", onclick: () => this.undo({ change_set: info.change_set }, `${count(together.length, "note")} get their texts from before this step.`, true) }, `Undo all ${together.length} changes of this step…`);
    const isFirst = info?.command === FIRST_SEEN;
    fill(this.change, h("a", { class: "button plain back", href: this.href("history", { ...this.place.values, revision: "" }) }, "‹ all changes"), h("h2", {}, h("a", { class: "entry", href: this.noteHref(found.path) }, name)),
      h("p", { class: "quiet small" }, h("code", {}, found.path), info && [" · ", when(info.at), isFirst ? " · first seen" : ` · ${act(info).toLowerCase().replace(/ (in|to|of|a change of)$/, "")} by ${nameWriter(info.client)} · step ${info.change_set}`]),
      isFirst ? h("p", { class: "quiet" }, "The note was there when memsyncd first saw it, so there is no change to undo.")
        : info?.is_kept !== false ? h("p", { class: "tools" }, undo, undoAll, command(`memsyncd undo ${info?.change_set ?? ""}`)) : h("p", { class: "quiet" }, "The texts of this change are no longer kept."),
      together.length > 1 && h("details", {}, h("summary", {}, "Changed in the same step"), h("ul", { class: "list" }, together.map((/** @type {any} */ one) =>
        h("li", {}, h("a", { href: this.href("history", { ...this.place.values, revision: one.revision }) }, one.path))))), info?.old_path && !found.diff ? h("p", {}, "Only its place has changed: ", h("code", {}, info.old_path), " is now ", h("code", {}, info.path), ".") : makeDiff(found.diff, isDeleting || found.new_digest === null));
  }

  /** Undo after a question. @param {{revision?: number, change_set?: number, confirm?: boolean}} what @param {string} effect @param {boolean} isDeleting */
  async undo(what, effect, isDeleting) {
    try {
      if (!await ask("Undo this change?", [h("p", {}, effect, " The undo can itself be undone.")], "Undo", "Cancel", undefined, isDeleting ? "no" : "yes")) return;
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

/** The act of a change in words. @param {any} one A revision. */
function act(one) {
  if (one.command === "external") return one.old_path ? "Moved" : one.old_digest === null ? "Wrote" : one.new_digest === null ? "Deleted" : "Edited";
  return ACTS[one.command] ?? one.command.replace(/[._]/g, " ");
}

/** @param {any} one A revision. */
function describe(one) {
  return one.old_path ? `Moved ${nameNote(one.old_path)} to ${one.path}` : `${act(one)} ${nameNote(one.path)}`;
}

/** @param {any} one A revision. */
function writer(one) {
  return one.command === FIRST_SEEN ? "" : nameWriter(one.client);
}

/** A writer in words; a program without a name is known by the number of its process. @param {string} client */
function nameWriter(client) {
  return client.replace(/^pid (\d+)$/, "a program ($1)") || OTHERS;
}

/** Show a unified diff with both texts side by side, or the only text. @param {string} diff @param {boolean} isOne */
function makeDiff(diff, isOne) {
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
      if (!isOne) rows.push(h("tr", { class: "hunk" }, h("td", { colspan: 4 }, `line ${newLine}`)));
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
  if (isOne) {
    return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "The change" }, h("table", { class: "diff one" }, h("colgroup", {}, h("col", { class: "number" }), h("col")), h("tbody", {}, rows.map((row) => {
      const [oldNumber, before, newNumber, after] = [...row.children];
      row.replaceChildren(...(before?.textContent || oldNumber?.textContent ? [oldNumber, before] : [newNumber, after]).filter((cell) => cell !== undefined));
      return row;
    }))));
  }
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
