// Search as you type: hits with matched words, filters as chips, and why a hit has its score.

import { badges, fill, h, highlight, table } from "./dom.js";
import { View } from "./view.js";

const FILTERS = ["kind", "tag", "path", "task", "priority", "lifecycle", "tier", "after", "before"];

export class SearchView extends View {
  constructor() {
    super();
    this.chips = h("div", { class: "chips" });
    this.results = h("div", { class: "results" });
    this.summary = h("p", { class: "quiet", role: "status" });
  }

  connectedCallback() {
    if (!this.firstChild) fill(this, this.chips, this.summary, this.results);
  }

  /** @param {AbortSignal} signal */
  async read(signal) {
    const { q = "", sort = "", explain = "", all = "" } = this.place.values;
    const filters = this.readFilters();
    this.showChips();
    if (!q.trim() && !Object.keys(filters).length) {
      fill(this.summary, "Type to search. A phrase stands in quotes, -word excludes, kind:decision and #tag filter.");
      fill(this.results);
      return;
    }
    const workspace = all ? "*" : this.place.workspace;
    const params = { query: q, filters, limit: 50, explain: explain === "1", ...(sort ? { sort } : {}) };
    const found = await this.ask("search", { ...params, workspace }, signal);
    const left = found.workspaces.filter((/** @type {any} */ one) => one.failure);
    fill(this.summary, `${found.hits.length}${found.hits.length === 50 ? " or more" : ""} hits in ${found.took_ms.toFixed(1)} ms`,
      found.relaxed && " · no section holds every word", left.map((/** @type {any} */ one) => ` · ${one.name} is left out: ${one.failure}`));
    fill(this.results, found.hits.length ? h("ol", {}, found.hits.map((/** @type {any} */ hit) => this.makeHit(hit, Boolean(all))))
      : [h("p", {}, found.why_empty ?? "Nothing was found."), found.did_you_mean && h("p", {}, "Did you mean ",
        h("a", { href: this.href("search", { ...this.place.values, q: found.did_you_mean }) }, found.did_you_mean), "?")]);
  }

  readFilters() {
    /** @type {Record<string, string | string[]>} */
    const filters = {};
    for (const name of FILTERS) {
      const value = this.place.values[name];
      if (value) filters[name] = name === "after" || name === "before" ? value : value.split(",");
    }
    return filters;
  }

  /** @param {any} hit @param {boolean} isAll */
  makeHit(hit, isAll) {
    const name = hit.heading.join(" › ") || hit.path;
    const href = isAll ? `#notes?${new URLSearchParams({ w: hit.workspace, path: hit.path, line: hit.start_line })}` : this.noteHref(hit.path, hit.start_line);
    return h("li", { class: "hit" }, h("a", { class: "entry", href }, name), " ", badges(hit),
      h("p", {}, highlight(hit.snippet)),
      h("p", { class: "quiet" }, isAll && `${hit.workspace} · `, h("code", {}, `${hit.path}:${hit.start_line}-${hit.end_line}`), ` · score ${hit.score.toFixed(3)} · ${hit.created ?? hit.day}`),
      hit.explain && h("details", {}, h("summary", {}, "why this score"), table("Parts of the score", ["Part", "Value"],
        Object.entries(hit.explain).map(([part, value]) => [part, Number(value).toFixed(4)]))));
  }

  showChips() {
    const values = this.place.values;
    const chips = FILTERS.filter((name) => values[name]).map((name) =>
      h("a", { class: "chip", href: this.href("search", { ...values, [name]: "" }), "aria-label": `Remove the filter ${name} ${values[name]}` }, `${name}: ${values[name]} ×`));
    const isExplained = values.explain === "1";
    const add = h("form", { class: "filter" },
      h("label", {}, h("span", { class: "hidden" }, "Filter by"), h("select", { name: "name" }, FILTERS.map((name) => h("option", {}, name)))),
      h("label", {}, h("span", { class: "hidden" }, "Value"), h("input", { name: "value", size: 12, placeholder: "value" })), h("button", { type: "submit" }, "Filter"));
    add.addEventListener("submit", (event) => {
      event.preventDefault();
      const data = new FormData(add);
      location.hash = this.href("search", { ...values, [String(data.get("name"))]: String(data.get("value")).trim() });
    });
    const sort = h("select", { onchange: () => (location.hash = this.href("search", { ...values, sort: sort.value })) },
      ["relevance", "recency", "importance", "decay", "priority", "file"].map((name) => h("option", { selected: (values.sort || "relevance") === name }, name)));
    const isFocused = this.chips.contains(document.activeElement);
    if (isFocused) return;
    fill(this.chips, chips, add, h("label", {}, "Order ", sort),
      h("a", { class: "chip", href: this.href("search", { ...values, explain: isExplained ? "" : "1" }), "aria-pressed": null }, isExplained ? "hide scores" : "explain scores"),
      h("a", { class: "chip", href: this.href("search", { ...values, all: values.all ? "" : "1" }) }, values.all ? "this workspace" : "all workspaces"));
  }
}
