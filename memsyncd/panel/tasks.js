// A task's board: what is ready, what is done, its other sections, and the signals of agents.

import { badges, count, fill, h, when } from "./dom.js";
import { View } from "./view.js";

// The statuses that `task.ready` counts as done.
const DONE = new Set(["done", "closed", "resolved", "fixed", "cancelled", "wontfix", "archived"]);
const MOST = 200;

/** While no task is chosen, the sections of at most so many tasks are read. */
const ALL_TASKS = 8;

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
      this.ask("stats", { by: ["task"] }, signal), this.ask("task.ready", { limit: MOST, ...(task ? { task } : {}) }, signal),
      this.ask("signal.outbox", { everyone: true, limit: 30 }, signal)]);
    const names = stats.counts.task.filter((/** @type {any} */ one) => one.value !== null);
    const shown = task ? [task] : names.slice(0, ALL_TASKS).map((/** @type {any} */ one) => one.value);
    const lists = await Promise.all(shown.map((/** @type {string} */ name) => this.ask("task.list", { task: name, include_archived: true }, signal)));
    const all = lists.flatMap((one) => one.items);
    const isReady = new Set(ready.items.map((/** @type {any} */ one) => one.anchor));
    const others = all.filter((/** @type {any} */ one) => !isReady.has(one.anchor));
    fill(this, h("nav", { "aria-label": "Tasks", class: "chips" }, h("a", { class: "chip", href: this.href("tasks"), "aria-current": task ? null : "true" }, "all tasks"),
      names.map((/** @type {any} */ one) => h("a", { class: "chip", href: this.href("tasks", { task: one.value }), "aria-current": one.value === task ? "true" : null }, `${one.value} (${one.sections})`))),
    h("div", { class: "board" },
      this.makeColumn(`Ready (${ready.n_ready})`, ready.items, ready.blocked ? `${count(ready.blocked, "section")} blocked` : ""),
      (task ? ["Blocked", "Done", "Record"] : ["Blocked", "Done"]).map((name) => this.makeColumn(name, others.filter((/** @type {any} */ one) => placeTask(one) === name), task || names.length <= ALL_TASKS ? "" : `of the first ${ALL_TASKS} tasks`)),
      this.makeSignals(signals.signals)));
  }

  /** @param {string} title @param {any[]} items @param {string} [note] */
  makeColumn(title, items, note = "") {
    return h("section", { class: "column" }, h("h2", {}, title), note && h("p", { class: "quiet" }, note), items.length ? h("ul", {}, items.map((one) =>
      h("li", { class: "card" }, h("a", { class: "entry", href: this.noteHref(one.path, one.start_line) }, one.heading.at(-1) ?? one.anchor), " ", badges(one),
        blockers(one) && h("p", { class: "quiet" }, `waits for ${blockers(one)}`),
        h("p", {}, one.text.slice(0, 240))))) : h("p", { class: "quiet" }, "none"));
  }

  /** @param {any[]} signals */
  makeSignals(signals) {
    return h("section", { class: "column" }, h("h2", {}, "Signals"), signals.length ? h("ul", {}, signals.map((one) => h("li", { class: "card" },
      h("strong", {}, one.type), ` from ${one.sender} to ${one.to.join(", ")}`, h("p", {}, one.content.slice(0, 240)),
      h("p", { class: "quiet" }, when(one.at), one.receipts.length ? ` · read by ${one.receipts.map((/** @type {any} */ r) => r.reader).join(", ")}` : " · unread")))) : h("p", { class: "quiet" }, "none"));
  }
}

/** The column of a section that is not ready. @param {any} one */
function placeTask(one) {
  if (DONE.has(one.status ?? "") || one.lifecycle === "archived") return "Done";
  return one.status === "blocked" || blockers(one) ? "Blocked" : "Record";
}

/** @param {any} one @returns {string} */
function blockers(one) {
  return [one.meta?.blocked_by ?? ""].flat().join(", ");
}
