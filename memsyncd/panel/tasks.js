// A task's board: what can be worked on, what is blocked and done, and the signals of agents.

import { badges, command, empty, fill, h, lead, nameSection, when } from "./dom.js";
import { View } from "./view.js";
import { finish, remember } from "./write.js";

// The statuses that `task.ready` counts as done.
const DONE = ["done", "closed", "resolved", "fixed", "cancelled", "wontfix", "archived"];
const MOST = 30;
/** Entries of the columns Blocked and Done while no task is chosen. */
const FEW = 20;
const SIGNALS = 30;
const TEXT_CHARS = 300;

export class TasksView extends View {
  constructor() {
    super();
    // A signal changes no index, so no event tells of it.
    this.isPolled = true;
  }

  /** @param {AbortSignal} signal */
  async read(signal) {
    const task = this.place.values.task ?? "";
    const [stats, ready, signals] = await Promise.all([
      this.ask("stats", { by: ["task"], limit: MOST }, signal), this.ask("task.ready", { limit: MOST, ...(task ? { task } : {}) }, signal),
      this.ask("signal.outbox", { everyone: true, limit: SIGNALS }, signal)]);
    const names = stats.counts.task.filter((/** @type {any} */ group) => group.value !== null);
    if (!names.length && !signals.signals.length) {
      fill(this, empty("There is no task yet.", h("p", {}, "A task is a name, such as ", h("code", {}, "HB-12"), ", that sections of notes state. This board shows what can be worked on, what is blocked and what is done."),
        h("p", {}, h("button", { type: "button", class: "main", onclick: () => remember(this, { task: "T-1" }) }, "Write the first task…")), h("p", {}, "In a terminal: ", command("memsyncd remember 'Deploy without a lock' --task HB-12 --priority P1")),
        h("p", {}, "In a note, below a heading: "), h("pre", {}, "## Deploy without a lock\n<!-- memory: {task: HB-12, priority: P1, status: open} -->")));
      return;
    }
    const isReady = new Set(ready.items.map((/** @type {any} */ section) => section.anchor));
    const [blocked, done, record] = task ? await this.readTask(task, isReady, signal) : await this.readAll(isReady, signal);
    const columns = [
      { title: "Ready", n: ready.n_ready, items: ready.items, without: "Nothing can be worked on." },
      { title: "Blocked", n: task ? blocked.length : Math.max(ready.blocked, blocked.length), items: blocked, without: "Nothing is blocked." },
      { title: "Done", n: done.length, items: done, without: "Nothing is done yet." },
      ...(record.length ? [{ title: "Record", n: record.length, items: record, without: "" }] : []),
    ];
    const texts = await this.renderTexts(columns.flatMap((column) => column.items.map((/** @type {any} */ section) => cut(section.text ?? ""))), signal);
    fill(this, lead("What can be worked on, what waits, and what is done: the sections of notes that name a task."), h("nav", { "aria-label": "Tasks", class: "chips" }, h("a", { class: "chip", href: this.href("tasks"), "aria-current": task ? null : "true" }, "All tasks"),
      names.map((/** @type {any} */ group) => h("a", { class: "chip", href: this.href("tasks", { task: group.value }), "aria-current": group.value === task ? "true" : null }, `${group.value} `, h("span", { class: "quiet small" }, group.sections))),
      h("button", { type: "button", onclick: () => remember(this, { task: task || "" }) }, "New…")),
    h("div", { class: "board" }, columns.map((column) => this.makeColumn(column, texts.splice(0, column.items.length), task))),
    signals.signals.length > 0 && this.makeSignals(signals.signals));
  }

  /** All sections of a task by column. @param {string} task @param {Set<string>} isReady @param {AbortSignal} signal @returns {Promise<[any[], any[], any[]]>} */
  async readTask(task, isReady, signal) {
    const { items } = await this.ask("task.list", { task, include_archived: true }, signal);
    /** @type {[any[], any[], any[]]} */
    const [blocked, done, record] = [[], [], []];
    for (const section of items) {
      if (isReady.has(section.anchor)) continue;
      if (DONE.includes(section.status ?? "") || section.lifecycle === "archived") done.push(section);
      else if (section.status === "blocked" || listBlockers(section)) blocked.push(section);
      else record.push(section);
    }
    return [blocked, done, record];
  }

  /** The first blocked and the last finished sections of all tasks. @param {Set<string>} isReady @param {AbortSignal} signal @returns {Promise<[any[], any[], any[]]>} */
  async readAll(isReady, signal) {
    const find = async (/** @type {Record<string, unknown>} */ filters) => {
      const { notes } = await this.ask("list", { filters: { has: ["task"], ...filters }, limit: FEW, ...(filters.status === DONE ? { sort: "recency" } : {}) }, signal);
      return notes.flatMap((/** @type {any} */ note) => note.sections.map((/** @type {any} */ section) => ({ ...section, path: note.path, title: note.title }))).slice(0, FEW);
    };
    const [blocked, done] = await Promise.all([find({ status: ["blocked"] }), find({ status: DONE, include_archived: true })]);
    return [blocked.filter((/** @type {any} */ section) => !isReady.has(section.anchor)), done, []];
  }

  /** @param {{title: string, n: number, items: any[], without: string}} column @param {HTMLElement[]} texts @param {string} task */
  makeColumn({ title, n, items, without }, texts, task) {
    return h("section", { class: "column" }, h("h2", {}, `${title} `, h("span", { class: "quiet small" }, n > items.length ? `${items.length} of ${n}` : n)), items.length ? h("ul", { class: "cards" }, items.map((section, at) =>
      h("li", { class: "card" }, h("a", { class: "entry", href: this.noteHref(section.path, section.start_line) }, section.heading.at(-1) ?? nameSection(section)),
        h("div", {}, badges({ kind: section.kind, priority: section.priority, task: task ? null : section.task, status: section.status === "open" ? null : section.status })),
        listBlockers(section) && h("p", { class: "quiet small" }, `waits for ${listBlockers(section)}`),
        texts[at], title === "Ready" && h("div", { class: "tools" }, h("button", { type: "button", class: "plain", "aria-label": `Mark as done: ${section.heading.at(-1) ?? section.anchor}`, onclick: () => void finish(this, section.anchor) }, "Mark as done"))))) : h("p", { class: "quiet" }, without));
  }

  /** @param {any[]} signals */
  makeSignals(signals) {
    return h("section", {}, h("h2", {}, "Signals between agents"), h("ul", { class: "list" }, signals.map((message) => h("li", {},
      h("span", { class: "badge kind" }, message.type), h("strong", {}, message.sender || "somebody"), ` to ${message.to.join(", ").replace(/\b(agent|session|task):/g, "")} · `, h("span", { class: "quiet" }, when(message.at), message.receipts.length ? ` · read by ${message.receipts.map((/** @type {any} */ receipt) => receipt.reader.replace(/^\w+:/, "")).join(", ")}` : " · unread"),
      h("p", {}, message.content.slice(0, TEXT_CHARS))))));
  }
}

/** @param {string} text */
function cut(text) {
  return text.length > TEXT_CHARS ? `${text.slice(0, TEXT_CHARS)} …` : text;
}

/** @param {any} section @returns {string} */
function listBlockers(section) {
  return [section.meta?.blocked_by ?? ""].flat().join(", ");
}
