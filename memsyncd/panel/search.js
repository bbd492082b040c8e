// Search as you type: hits with matched words, filters as chips, and why a hit has its score.

import { badges, contradictions, fill, h, highlight, markWords, table } from "./dom.js";
import { makeHref, View } from "./view.js";

const STEP = 50;
const MOST = 200;
/** Number of links whose relations are offered. */
const RELATIONS_OF = 2000;
const COUNTED = ["kind", "tag", "task", "priority", "lifecycle"];
/** The chip in the row of filters that is no filter: typed links to follow from each hit. */
const FOLLOW = "follow";
const FILTERS = ["kind", "tag", "path", "task", "priority", "lifecycle", "tier", "after", "before"];

export class SearchView extends View {
  constructor() {
    super();
    this.chips = h("div", { class: "chips" });
    this.field = h("select", { name: "name", onchange: () => this.suggest() }, [...FILTERS, FOLLOW].map((name) => h("option", {}, name)));
    this.value = h("input", { name: "value", size: 12, placeholder: "value", list: "filter-values", autocomplete: "off", onfocus: () => this.suggest() });
    this.values = h("datalist", { id: "filter-values" });
    this.suggested = this.shown = "";
    this.add = h("form", { class: "filter" }, h("label", {}, h("span", { class: "hidden" }, "Filter by"), this.field),
      h("label", {}, h("span", { class: "hidden" }, "Value"), this.value), this.values, h("button", { type: "submit" }, "Filter"));
    this.add.addEventListener("submit", (event) => {
      event.preventDefault();
      const value = this.value.value.trim();
      if (!value) return;
      this.value.value = "";
      location.hash = this.href("search", { ...this.place.values, [this.field.value]: value });
    });
    this.results = h("div", { class: "results" });
    this.summary = h("p", { class: "quiet", role: "status" });
  }

  connectedCallback() {
    if (!this.firstChild) fill(this, this.chips, this.summary, this.results);
  }

  /** @param {AbortSignal} signal */
  async read(signal) {
    const { q = "", sort = "", explain = "", all = "", n = "" } = this.place.values;
    const limit = Number(n) || STEP;
    const filters = this.readFilters();
    this.showChips();
    if (!q.trim() && !Object.keys(filters).length) {
      fill(this.summary, "Type to search. A phrase stands in quotes, -word excludes, kind:decision and #tag filter.");
      fill(this.results);
      return;
    }
    const workspace = all ? "*" : this.place.workspace;
    const { follow = "" } = this.place.values;
    const params = { query: q, filters, limit, explain: explain === "1", ...(sort ? { sort } : {}), ...(follow ? { follow: follow.split(",") } : {}) };
    const found = await this.ask("search", { ...params, workspace }, signal);
    const left = found.workspaces.filter((/** @type {any} */ one) => one.failure);
    const isFull = found.hits.length === limit;
    fill(this.summary, `${found.hits.length}${isFull ? " or more" : ""} ${found.hits.length === 1 ? "hit" : "hits"} in ${found.took_ms.toFixed(1)} ms`,
      ` · by words${found.semantic === "off" ? "" : " and meaning"}`, found.semantic_reason && ` (${found.semantic_reason})`,
      found.relaxed && " · no section holds every word", found.query_problems.map((/** @type {string} */ one) => ` · ${one}`),
      found.excluded.length > 0 && ` · excluded: ${found.excluded.join(" ")}`, left.map((/** @type {any} */ one) => ` · ${one.name} is left out: ${one.failure}`));
    fill(this.results, found.hits.length ? h("ol", {}, found.hits.map((/** @type {any} */ hit) => this.makeHit(hit, Boolean(all))),
      isFull && limit < MOST && h("li", {}, h("a", { class: "chip", href: this.href("search", { ...this.place.values, n: MOST }) }, "more hits")))
      : [h("p", {}, found.why_empty ?? "Nothing was found."), found.did_you_mean && h("p", {}, "Did you mean ",
        h("a", { href: this.href("search", { ...this.place.values, q: found.did_you_mean }) }, found.did_you_mean), "?")]);
  }

  /** Offer the workspace's values of the chosen filter. */
  async suggest() {
    const name = this.field.value, wanted = `${this.place.workspace} ${name}`;
    if (this.suggested === wanted) return;
    this.suggested = wanted;
    const known = name === "tier" ? ["hot", "warm", "cold"] : [];
    if (name === FOLLOW) {
      const found = await this.ask("links", { limit: RELATIONS_OF });
      known.push(...new Set(found.links.map((/** @type {any} */ one) => one.relation).filter(Boolean)));
    } else if (COUNTED.includes(name)) {
      const found = await this.ask("stats", { by: [name], limit: 100 });
      known.push(...found.counts[name].map((/** @type {any} */ one) => one.value).filter(Boolean));
    }
    if (this.suggested === wanted) fill(this.values, known.map((value) => h("option", { value })));
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
    const href = isAll ? makeHref("notes", hit.workspace, { path: hit.path, line: hit.start_line }) : this.noteHref(hit.path, hit.start_line);
    return h("li", { class: "hit" }, h("a", { class: "entry", href }, markWords(name, hit.matched)), " ", badges(hit),
      hit.sections.length > 0 && h("p", { class: "quiet" }, `with ${hit.sections.filter((/** @type {any} */ one) => one.anchor !== hit.anchor).map((/** @type {any} */ one) => one.heading.at(-1) ?? one.anchor).join(", ")}`),
      h("p", {}, highlight(hit.snippet)),
      hit.related.map((/** @type {any} */ one) => h("p", { class: "related" }, `${one.relation} → `,
        h("a", { href: isAll ? makeHref("notes", hit.workspace, { path: one.path, line: one.start_line }) : this.noteHref(one.path, one.start_line) }, one.heading.join(" › ") || one.path), h("span", { class: "quiet" }, ` ${one.snippet}`))),
      !isAll && contradictions(hit, (path) => this.noteHref(path)),
      h("p", { class: "quiet" }, isAll && `${hit.workspace} · `, h("code", {}, `${hit.path}:${hit.start_line}-${hit.end_line}`), ` · score ${hit.score.toFixed(3)} · ${(hit.created ?? hit.day).slice(0, 10)}`),
      hit.explain && h("details", {}, h("summary", {}, "why this score"), table("Parts of the score", ["Part", "Value"],
        Object.entries(hit.explain).map(([part, value]) => [part, Number(value).toFixed(4)]))));
  }

  showChips() {
    const values = this.place.values;
    const chips = [...FILTERS, FOLLOW].filter((name) => values[name]).map((name) =>
      h("a", { class: "chip", href: this.href("search", { ...values, [name]: "" }), "aria-label": `Remove the filter ${name} ${values[name]}` }, `${name}: ${values[name]} ×`));
    const isExplained = values.explain === "1";
    const sort = h("select", { onchange: () => (location.hash = this.href("search", { ...values, sort: sort.value })) },
      ["relevance", "recency", "importance", "worth", "priority", "file"].map((name) => h("option", { selected: (values.sort || "relevance") === name }, name)));
    // A live update does not touch the row while the user types a filter.
    const shown = JSON.stringify([this.place.workspace, values]);
    if (shown === this.shown) return;
    this.shown = shown;
    fill(this.chips, chips, this.add, h("label", {}, "Order ", sort),
      h("a", { class: "chip", href: this.href("search", { ...values, explain: isExplained ? "" : "1" }), "aria-pressed": null }, isExplained ? "hide scores" : "explain scores"),
      h("a", { class: "chip", href: this.href("search", { ...values, all: values.all ? "" : "1" }) }, values.all ? "this workspace" : "all workspaces"));
  }
}
