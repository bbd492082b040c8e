// The block that an agent would get for a question and a budget, and the sections left out.

import { contradictions, copyButton, count, empty, fill, h, makeSwitch, nameAnchor, nameSection, quote, sentence } from "./dom.js";
import { View } from "./view.js";
import { remember } from "./write.js";

/** Reasons for a part, in words. @type {Record<string, string>} */
const REASONS = { match: "matches the question", "MEMORY.md": "the workspace's first note", pinned: "pinned", important: "a preference or an error", project: "holds for the project", recent: "changed lately", related: "linked", profile: "profile of the project", checkpoint: "last checkpoint", summary: "summary", discovery: "discovery", ready: "task that is ready", task: "of the task", session: "of the session", "no room": "no room" };
const BUDGETS = [500, 2000, 4000, 8000];

export class ContextView extends View {
  constructor() {
    super();
    this.question = h("input", { name: "q", type: "search", placeholder: "start of a session", spellcheck: "false" });
    this.budget = h("input", { type: "range", min: 100, max: 8000, step: 100, value: 2000, list: "budgets" });
    this.shownBudget = h("output", { class: "nowrap" });
    this.follow = h("input", { size: 14, placeholder: "resolved_by, …", autocomplete: "off" });
    this.presets = h("div", { class: "chips" });
    this.result = h("div", { class: "context" });
    /** True to show the block as the exact text, false as markdown. */
    this.isExact = false;
    this.timer = 0;
  }

  connectedCallback() {
    if (this.firstChild) return;
    const later = () => {
      clearTimeout(this.timer);
      this.shownBudget.value = `${this.budget.value} tokens`;
      this.timer = window.setTimeout(() => {
        const values = { q: this.question.value, tokens: this.budget.value, follow: this.follow.value };
        history.replaceState(null, "", this.href("context", values));
        this.place.values = values;
        void this.reload();
      }, 120);
    };
    for (const field of [this.question, this.budget, this.follow]) field.addEventListener("input", later);
    fill(this, h("h2", {}, "What an agent gets"), h("form", { class: "ask", onsubmit: (/** @type {Event} */ event) => event.preventDefault() },
      h("label", {}, "Question", this.question), h("label", {}, "Budget", this.budget, this.shownBudget), h("label", {}, "Follow relations", this.follow),
      h("datalist", { id: "budgets" }, BUDGETS.map((value) => h("option", { value })))), this.presets, this.result);
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    clearTimeout(this.timer);
  }

  /** @param {AbortSignal} signal */
  async read(signal) {
    const { q = "", tokens = "2000", follow = "" } = this.place.values;
    const relations = follow.split(/[\s,]+/).filter(Boolean);
    if (document.activeElement !== this.question) this.question.value = q;
    if (document.activeElement !== this.budget) this.budget.value = tokens;
    if (document.activeElement !== this.follow) this.follow.value = follow;
    this.shownBudget.value = `${this.budget.value} tokens`;
    const found = await this.ask("context", { query: q, max_tokens: Number(tokens), track_access: false, mark: true, follow: relations }, signal);
    const [rendered] = await this.renderTexts(found.text ? [found.text] : [], signal);
    const command = ["memsyncd context", q && quote(q), `--max-tokens ${tokens}`].filter(Boolean).join(" ");
    fill(this.presets, q !== "" && h("a", { class: "button", href: this.href("context", { tokens }) }, "Start of a session"), makeSwitch("Exact text", this.isExact, (isOn) => {
      this.isExact = isOn;
      void this.reload();
    }), found.text && copyButton("Copy the block", found.text), copyButton("Copy command", command));
    const block = this.isExact ? h("pre", { class: "block", tabindex: 0, "aria-label": "The block" }, found.text) : h("div", { class: "card prose", role: "region", tabindex: 0, "aria-label": "The block" }, rendered);
    const labels = found.text.split("\n").filter((/** @type {string} */ line) => line.startsWith("### "));
    const places = new Map(found.included.map((/** @type {any} */ part) => [part, findLabel(part, labels)]));
    const ranks = new Map(found.included.map((/** @type {any} */ part, /** @type {number} */ at) => [part, at + 1]));
    const included = found.included.toSorted((/** @type {any} */ one, /** @type {any} */ other) => places.get(one) - places.get(other) || one.start_line - other.start_line);
    const meaning = found.semantic === "off" ? "found by their words" : "found by words and meaning";
    fill(this.result, h("p", { class: "quiet", role: "status" }, `${count(found.included.length, "part")} given, ${found.n_left_out} left out · ${found.tokens.toLocaleString()} of ${Number(tokens).toLocaleString()} tokens`,
      q && ` · ${meaning}`, found.semantic_reason && ` (${found.semantic_reason})`, found.unranked > 0 && ` · ${count(found.unranked, "further match", "further matches")} rank below`),
    found.text ? h("div", { class: "columns" }, h("section", {}, h("h3", {}, "The agent reads"), block),
      h("section", {}, h("h3", {}, "Included, as in the block; the number is the rank"), this.makeParts(included, ranks),
        found.left_out.length > 0 && [h("h3", {}, found.n_left_out > found.left_out.length ? `Left out, the first ${found.left_out.length} of ${found.n_left_out}` : "Left out"), this.makeParts(found.left_out, new Map())]))
      : empty(q ? "Nothing would be given" : "An agent would begin without memory", h("p", {}, sentence(found.why_empty ?? "No note has been written yet.")),
        h("p", {}, "At the start of a session an agent gets MEMORY.md, pinned notes, preferences and errors, and notes that changed lately."), h("p", {}, h("button", { type: "button", class: "main", onclick: () => remember(this) }, "Write a note"))));
  }

  /** @param {any[]} parts @param {Map<any, number>} ranks */
  makeParts(parts, ranks) {
    return h("ol", { class: "list parts" }, parts.map((part) => h("li", {}, h("span", { class: "quiet small" }, ranks.get(part) ?? ""), h("div", {},
      h("a", { class: "entry", href: this.noteHref(part.path, part.start_line) }, nameSection(part)),
      h("p", { class: "quiet small" }, part.kind && h("span", { class: "badge kind" }, part.kind), describeReason(part),
        part.end_line > part.start_line ? ` · lines ${part.start_line}–${part.end_line}` : ` · line ${part.start_line}`), contradictions(part, (path) => this.noteHref(path))))));
  }
}

/** The number of the label of a part in the block; a part without a label of its own comes last. @param {any} part @param {string[]} labels */
function findLabel(part, labels) {
  const at = labels.findIndex((label) => {
    const [, start, end] = / \S.*:(\d+)(?:-(\d+))?(?:, .*)?$/.exec(label) ?? [];
    return start && label.includes(`${part.path}:${start}`) && part.start_line <= Number(end ?? start) && Number(start) <= part.end_line;
  });
  return at < 0 ? labels.length : at;
}

/** @param {any} part @returns {string} */
function describeReason(part) {
  if (part.relation) return `${part.reason}: ${part.relation} of ${nameAnchor(part.related_to)}`;
  const same = /^the same as (.*)$/.exec(part.reason);
  return same ? `the same as ${nameAnchor(same[1] ?? "")}` : REASONS[part.reason] ?? part.reason;
}
