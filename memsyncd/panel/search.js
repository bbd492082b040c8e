// Search as you type: hits with matched words, facets to narrow them, and the reasons for a score.

import { badges, contradictions, copyButton, empty, fill, h, highlight, lead, makeSwitch, markWords, nameSection, plainText, quote, sentence, table } from "./dom.js";
import { makeHref, View } from "./view.js";
import { remember } from "./write.js";

/** Hits that are shown first, the hits of one answer, from which the facets come, and the most. */
const FIRST = 20, STEP = 50, MOST = 200;
/** Values of a facet that are shown. */
const VALUES = 12;
/** Number of links whose relations are offered. */
const RELATIONS_OF = 500;
const RECENT = 6;
/** How long a question must stand until it is a recent one. */
const RECENT_MS = 2000;
const FILTERS = ["kind", "tag", "path", "task", "priority", "lifecycle", "status", "tier", "after", "before"];
/** Facets by the name of their filter. */
const FACETS = [["kind", "Kind"], ["tag", "Tag"], ["path", "Folder"], ["after", "Date"]];
const DATES = [["1d", "since yesterday"], ["7d", "last 7 days"], ["30d", "last 30 days"], ["365d", "last year"]];
const ORDERS = [["relevance", "best match"], ["recency", "newest"], ["importance", "importance"], ["worth", "worth"], ["priority", "priority"], ["file", "note"]];
/** The former name of the worth. */
const FORMER_WORTH = "decay_score";
const FILTER_WORD = /\b((?:is|kind|tag|path|task|status|after|before|tier):[^\s,;.]+)/;

export class SearchView extends View {
  constructor() {
    super();
    this.chips = h("div", { class: "chips" });
    this.facets = h("details", { class: "facets", open: matchMedia("(min-width: 721px)").matches });
    this.results = h("div", { class: "results" });
    this.summary = h("p", { class: "quiet", role: "status" });
    this.shown = "";
    this.timer = 0;
    /** Relations of typed links, for the choice to follow them. @type {string[]} */
    this.relations = [];
    this.relationsOf = "";
  }

  connectedCallback() {
    if (!this.firstChild) fill(this, this.chips, h("div", { class: "found" }, this.facets, h("div", {}, this.summary, this.results)));
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    clearTimeout(this.timer);
  }

  /** @param {AbortSignal} signal */
  async read(signal) {
    const { q = "", sort = "", explain = "", all = "", n = "", follow = "" } = this.place.values;
    const first = Number(n) || FIRST, limit = Math.max(first, STEP);
    const filters = this.readFilters();
    this.showChips();
    if (!q.trim() && !Object.keys(filters).length) {
      await this.showBeginning(signal);
      return;
    }
    const params = { query: q, filters, limit, explain: explain === "1", ...(sort ? { sort } : {}), ...(follow ? { follow: follow.split(",") } : {}) };
    const found = await this.ask("search", { ...params, workspace: all ? "*" : this.place.workspace }, signal);
    const left = found.workspaces.filter((/** @type {any} */ workspace) => workspace.failure);
    const isFull = found.hits.length === limit;
    fill(this.summary, `${found.hits.length}${isFull ? " or more" : ""} ${found.hits.length === 1 ? "hit" : "hits"} in ${found.took_ms.toFixed(0)} ms`,
      found.semantic === "off" ? "" : " · by words and meaning", found.semantic_reason && ` (${found.semantic_reason})`,
      found.relaxed && " · no passage holds every word", found.query_problems.map((/** @type {string} */ problem) => [" · ", this.withLinks(problem)]).flat(),
      found.excluded.length > 0 && ` · without: ${found.excluded.join(" ")}`, left.map((/** @type {any} */ workspace) => ` · ${workspace.name} is left out: ${workspace.failure}`));
    this.showFacets(found.hits);
    fill(this.results, found.hits.length ? h("ol", {}, found.hits.slice(0, first).map((/** @type {any} */ hit) => this.makeHit(hit, Boolean(all))),
      (found.hits.length > first || isFull && limit < MOST) && h("li", {}, h("a", { class: "button", href: this.href("search", { ...this.place.values, n: first < STEP ? STEP : MOST }) }, "More hits")))
      : [h("p", {}, this.withLinks(sentence(found.why_empty ?? "nothing was found"))), found.did_you_mean && h("p", {}, "Did you mean ",
        h("a", { href: this.href("search", { ...this.place.values, q: found.did_you_mean }) }, found.did_you_mean), "?"), this.makeHelp()]);
    if (found.hits.length) this.remember(q);
  }

  /** Text with its words that filter as links to the search with them. @param {string} text */
  withLinks(text) {
    const { q = "" } = this.place.values;
    return text.split(FILTER_WORD).map((part, at) => (at % 2 ? h("a", { href: this.href("search", { ...this.place.values, q: `${q} ${part}`.trim() }) }, part) : part));
  }

  // --- the beginning: how to search, recent questions, and the values to browse by

  /** @param {AbortSignal} signal */
  async showBeginning(signal) {
    const { counts, notes } = await this.ask("stats", { by: ["kind", "tag", "task"], limit: VALUES }, signal);
    fill(this.summary);
    this.facets.hidden = true;
    const recent = this.readRecent();
    const link = (/** @type {string} */ name) => (/** @type {any} */ entry) => h("a", { class: "chip", href: this.href("search", { [name]: entry.value }) }, `${entry.value} `, h("span", { class: "quiet small" }, entry.sections));
    const group = (/** @type {string} */ title, /** @type {string} */ name) => {
      const values = counts[name].filter((/** @type {any} */ entry) => entry.value);
      return values.length > 0 && [h("h3", {}, title), h("div", { class: "chips" }, values.map(link(name)))];
    };
    const groups = [group("Kinds", "kind"), group("Tags", "tag"), group("Tasks", "task")].filter(Boolean);
    fill(this.results, notes > 0 && lead("Type above to find passages by their words, or choose where to begin."), recent.length > 0 && [h("h3", {}, "Recent"), h("div", { class: "chips" }, recent.map((question) => h("a", { class: "chip", href: this.href("search", { q: question }) }, question)))],
      notes > 0 ? groups.flatMap((entry) => entry || []) : empty("Nothing to find yet", h("p", {}, "Searches find passages of notes by their words."), h("p", {}, h("button", { type: "button", class: "main", onclick: () => remember(this) }, "Write the first note"))),
      this.makeHelp());
  }

  /** Examples of questions. */
  makeHelp() {
    return h("section", {}, h("h3", {}, "How to ask"), h("ul", { class: "list" }, [["redis timeout", "both words, in any form"], ["\"connection pool\"", "the phrase"], ["redis -draft", "without a word"], ["kind:decision #auth", "of a kind, with a tag"], ["deploy after:30d", "of the last 30 days"]]
        .map(([question = "", what]) => h("li", {}, h("a", { href: this.href("search", { q: question }) }, h("code", {}, question)), h("span", { class: "quiet" }, `  ${what}`)))));
  }

  get recentKey() {
    return `questions of ${this.place.workspace}`;
  }

  /** @returns {string[]} */
  readRecent() {
    try {
      return JSON.parse(localStorage.getItem(this.recentKey) ?? "[]");
    } catch {
      return [];
    }
  }

  /** Keep a question that stands for a while. @param {string} question */
  remember(question) {
    clearTimeout(this.timer);
    if (!question.trim()) return;
    this.timer = window.setTimeout(() => {
      const recent = [question, ...this.readRecent().filter((other) => other !== question)].slice(0, RECENT);
      localStorage.setItem(this.recentKey, JSON.stringify(recent));
    }, RECENT_MS);
  }

  // --- facets

  readFilters() {
    /** @type {Record<string, string | string[]>} */
    const filters = {};
    for (const name of FILTERS) {
      const value = this.place.values[name];
      if (value) filters[name] = name === "after" || name === "before" ? value : value.split(",");
    }
    return filters;
  }

  /** The facets of the hits that are shown, each value with the number of these hits. @param {any[]} hits */
  showFacets(hits) {
    const values = this.place.values;
    /** @type {Record<string, Map<string, number>>} */
    const counts = { kind: new Map(), tag: new Map(), path: new Map() };
    const add = (/** @type {string} */ name, /** @type {string} */ value) => counts[name]?.set(value, (counts[name]?.get(value) ?? 0) + 1);
    for (const hit of hits) {
      if (hit.kind) add("kind", hit.kind);
      for (const tag of hit.tags) add("tag", tag);
      const cut = hit.path.lastIndexOf("/");
      if (cut > 0) add("path", hit.path.slice(0, cut));
    }
    const sections = FACETS.map(([name = "", title = ""]) => {
      const chosen = values[name] ?? "";
      const entries = name === "after" ? DATES.map(([value = "", label = ""]) => ({ value, label, n: "" }))
        : [...counts[name] ?? []].sort((one, other) => other[1] - one[1]).map(([value, n]) => ({ value, label: value, n: String(n) })).slice(0, VALUES);
      if (chosen && !entries.some((entry) => entry.value === chosen)) entries.unshift({ value: chosen, label: chosen, n: "" });
      return entries.length > 0 && h("section", {}, h("h3", {}, title), h("ul", {}, entries.map((entry) => h("li", {}, h("a", {
        href: this.href("search", { ...values, [name]: entry.value === chosen ? "" : entry.value }), "aria-current": entry.value === chosen ? "true" : null,
      }, h("span", {}, entry.label), h("span", { class: "quiet small" }, entry.value === chosen ? "×" : entry.n))))));
    });
    this.facets.hidden = !hits.length && !Object.keys(values).some((name) => name !== "q");
    fill(this.facets, h("summary", {}, "Narrow the hits"), sections, h("section", { class: "show" }, h("h3", {}, "Show"),
      makeSwitch("All workspaces", Boolean(values.all), (isOn) => this.go({ all: isOn ? "1" : "" })),
      makeSwitch("Why this score", values.explain === "1", (isOn) => this.go({ explain: isOn ? "1" : "" })),
      h("label", {}, "Linked by", this.makeFollow())));
  }

  /** Go to the same search with other values. @param {Record<string, string>} changed */
  go(changed) {
    location.hash = this.href("search", { ...this.place.values, ...changed });
  }

  /** The choice of a relation whose links are followed from each hit. */
  makeFollow() {
    const chosen = this.place.values.follow ?? "", names = [...new Set([...this.relations, ...(chosen ? [chosen] : [])])];
    const follow = h("select", { onchange: () => this.go({ follow: follow.value }), onfocus: () => void this.offerRelations(follow) },
      h("option", { value: "" }, "–"), names.map((name) => h("option", { value: name, selected: chosen === name }, name.replace(/_/g, " "))));
    return follow;
  }

  /** The filters that no facet shows, and how the hits are ordered and shown. */
  showChips() {
    const values = this.place.values;
    const shown = JSON.stringify([this.place.workspace, values]);
    if (shown === this.shown) return;
    this.shown = shown;
    const chips = FILTERS.filter((name) => values[name]).map((name) =>
      h("a", { class: "chip", "aria-current": "true", href: this.href("search", { ...values, [name]: "" }), "aria-label": `Remove the filter ${name} ${values[name]}` }, `${NAMES[name] ?? name}: ${values[name]} ×`));
    const sort = h("select", { onchange: () => this.go({ sort: sort.value }) },
      ORDERS.map(([name, label]) => h("option", { value: name, selected: (values.sort || "relevance") === name }, label)));
    fill(this.chips, chips, (values.q || chips.length > 0) && h("label", {}, "Order", sort),
      values.q && copyButton("Copy command", () => this.makeCommand()));
  }

  makeCommand() {
    const { q = "", all = "" } = this.place.values;
    const options = FILTERS.flatMap((name) => (this.place.values[name] ? [`--${name} ${quote(this.place.values[name] ?? "")}`] : []));
    return ["memsyncd search", quote(q), ...options, all ? "--all" : ""].filter(Boolean).join(" ");
  }

  /** Offer the relations that notes have. @param {HTMLSelectElement} follow */
  async offerRelations(follow) {
    const { workspace } = this.place;
    if (this.relationsOf === workspace) return;
    this.relationsOf = workspace;
    const found = await this.ask("links", { limit: RELATIONS_OF });
    this.relations = [...new Set(found.links.map((/** @type {any} */ link) => link.relation).filter(Boolean))].sort();
    const offered = new Set([...follow.options].map((option) => option.value));
    follow.append(...this.relations.filter((name) => !offered.has(name)).map((name) => h("option", { value: name }, name.replace(/_/g, " "))));
  }

  // --- hits

  /** @param {any} hit @param {boolean} isAll */
  makeHit(hit, isAll) {
    const hrefOf = (/** @type {any} */ section) => (isAll ? makeHref("notes", hit.workspace, { path: section.path, line: section.start_line }) : this.noteHref(section.path, section.start_line));
    const others = hit.sections.filter((/** @type {any} */ section) => section.anchor !== hit.anchor && section.heading.length);
    const place = `${hit.path}:${hit.start_line}-${hit.end_line}`;
    return h("li", { class: "hit" }, h("a", { class: "entry", href: hrefOf(hit) }, markWords(nameSection(hit), hit.matched)), " ", badges(hit),
      others.length > 0 && h("p", { class: "quiet small" }, "with ", others.map((/** @type {any} */ section) => section.heading.at(-1)).join(", ")),
      h("p", {}, highlight(plainText(hit.snippet))),
      hit.labels.length > 0 && h("p", { class: "quiet small" }, hit.labels.join(" · ")),
      hit.related.map((/** @type {any} */ section) => h("p", { class: "related" }, `${section.relation.replace(/_/g, " ")} → `,
        h("a", { href: hrefOf(section) }, nameSection(section)), h("span", { class: "quiet" }, ` ${plainText(section.snippet)}`))),
      !isAll && contradictions(hit, (path) => this.noteHref(path)),
      h("p", { class: "quiet small" }, isAll && `${hit.workspace} · `, h("code", {}, place), ` · ${(hit.created ?? hit.day).slice(0, 10)} `, copyButton("Copy place", place)),
      hit.explain && table("Parts of the score", ["Part of the score", "Value"],
        Object.entries(hit.explain).filter(([part]) => part !== FORMER_WORTH).map(([part, value]) => [part.replace("decay_", "worth: ").replace(/_/g, " "), Number(value).toFixed(3)])));
  }
}


/** Filters that have another name in the page. @type {Record<string, string>} */
const NAMES = { path: "folder", after: "since", tier: "worth" };
