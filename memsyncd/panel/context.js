// The context that an agent would get for a question and a budget, and the sections left out.

import { contradictions, count, fill, h, table } from "./dom.js";
import { View } from "./view.js";

const HEADS = ["Section", "Lines", "Kind", "Why"];

export class ContextView extends View {
  constructor() {
    super();
    this.question = h("input", { name: "q", type: "search", placeholder: "a question; empty for the start of a session" });
    this.budget = h("input", { type: "range", min: 100, max: 8000, step: 100, value: 2000 });
    this.shownBudget = h("output");
    this.follow = h("input", { size: 14, placeholder: "resolved_by, …", autocomplete: "off" });
    this.result = h("div", { class: "context" });
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
    this.question.addEventListener("input", later);
    this.budget.addEventListener("input", later);
    this.follow.addEventListener("input", later);
    fill(this, h("form", { class: "ask", onsubmit: (/** @type {Event} */ event) => event.preventDefault() },
      h("label", {}, "Question", this.question), h("label", {}, "Budget", this.budget, this.shownBudget), h("label", {}, "Follow relations", this.follow)), this.result);
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
    const rows = (/** @type {any[]} */ parts) => parts.map((one) => [
      h("a", { class: "entry", href: this.noteHref(one.path, one.start_line) }, one.anchor), lines(one), one.kind ?? "", [one.relation ? `${one.reason}: ${one.relation} of ${one.related_to}` : h("span", { class: "nowrap" }, one.reason), contradictions(one, (path) => this.noteHref(path))]]);
    fill(this.result,
      h("p", { class: "quiet", role: "status" }, `${count(found.included.length, "part")} given, ${found.n_left_out} left out; ${found.tokens.toLocaleString()} of ${Number(tokens).toLocaleString()} tokens.`,
        found.unranked > 0 && ` ${count(found.unranked, "further match", "further matches")} rank below.`, ` By words${found.semantic === "off" ? "" : " and meaning"}${found.semantic_reason ? `: ${found.semantic_reason}` : ""}.`),
      found.why_empty && h("p", {}, found.why_empty),
      h("div", { class: "columns" },
        h("section", {}, h("h2", {}, "The agent is given"), h("pre", { tabindex: 0, "aria-label": "The block" }, found.text || "(nothing)")),
        h("section", {}, h("h2", {}, "Included"), found.included.length ? table("Included parts", HEADS, rows(found.included)) : h("p", { class: "quiet" }, "Nothing."),
          h("h2", {}, "Left out"), found.left_out.length ? table("Parts that are left out", HEADS, rows(found.left_out)) : h("p", { class: "quiet" }, "Nothing that matches is left out."))));
  }
}

/** @param {any} one */
function lines(one) {
  return h("span", { class: "nowrap" }, one.start_line === one.end_line ? one.start_line : `${one.start_line}–${one.end_line}`);
}
