// The worth of memories: how much each passage counts now, and why.

import { badges, command, count, empty, fill, h, lead, makeChoice, nameSection } from "./dom.js";
import { View } from "./view.js";
import { archive, archiveLow, cleanUp, remember } from "./write.js";

// A search joins neighbours in a note that state no metadata of their own into one hit.
const STEP = 50;
const MOST = 200;
const TIERS = { hot: "Hot", warm: "Warm", cold: "Cold" };

export class DecayView extends View {
  constructor() {
    super();
    this.tiers = h("div", { class: "chips" });
    this.body = h("div");
  }

  connectedCallback() {
    if (!this.firstChild) fill(this, lead("How much each passage is worth now. Searches can order by it, and what has little can be archived."), this.tiers, h("details", {}, h("summary", {}, "How is worth computed?"), h("p", {}, "Worth = recency × accesses × importance. The recency of a passage halves within the half-life of its kind; accesses and a high importance or priority raise its worth. Searches can order by it, and ", command("memsyncd archive"), " puts away what has little.")), this.body);
  }

  /** @param {AbortSignal} signal */
  async read(signal) {
    const { tier = "", n = "" } = this.place.values;
    const limit = Number(n) || STEP;
    const archiving = h("span", { class: "tools" }, h("button", { type: "button", onclick: () => void archiveLow(this) }, "Archive what has little worth…"), h("button", { type: "button", onclick: () => void cleanUp(this) }, "Archive what is past its time…"));
    fill(this.tiers, makeChoice("Tiers of worth", [{ label: "Highest first", href: this.href("decay"), isChosen: !tier },
      ...Object.entries(TIERS).map(([name, label]) => ({ label, href: this.href("decay", { tier: name }), isChosen: tier === name }))]),
    archiving);
    // Without a tier, a large vault answers at once; a tier weighs every section. A search wants a filter.
    const filters = tier ? { tier: [tier] } : { include_expired: true };
    const found = await this.ask("search", { query: "", sort: "worth", explain: true, limit, filters, timeout_ms: 10_000 }, signal);
    archiving.hidden = !tier && !found.hits.length;
    // A long section has several passages, which have the same worth.
    const sections = new Map(found.hits.toReversed().map((/** @type {any} */ hit) => [hit.anchor, hit]));
    fill(this.body, found.hits.length ? h("ol", { class: "list" }, [...sections.values()].reverse().map((/** @type {any} */ hit) => this.makeRow(hit)),
      found.hits.length === limit && limit < MOST && h("li", {}, h("a", { class: "button", href: this.href("decay", { tier, n: MOST }) }, `First ${MOST}`)))
      : empty(tier ? "No passage is in this tier." : "No section has a worth yet.", h("p", {}, "A passage is worth more the newer, the more often recalled and the more important it is. Write a note, and it stands here."), !tier && h("p", {}, h("button", { type: "button", class: "main", onclick: () => remember(this) }, "Write a note"))));
  }

  /** @param {any} hit */
  makeRow(hit) {
    const { worth = 0, decay_recency: recency = 0, decay_accesses: accesses = 0, decay_importance: importance = 0 } = hit.explain ?? {};
    const others = hit.sections.filter((/** @type {any} */ section) => section.anchor !== hit.anchor).length;
    return h("li", { class: "worth" }, h("div", {}, h("a", { class: "entry", href: this.noteHref(hit.path, hit.start_line) }, nameSection(hit)), " ", badges({ kind: hit.kind, priority: hit.priority, is_expired: hit.is_expired }),
      others > 0 && h("span", { class: "quiet small" }, `and ${count(others, "neighbour")}`)),
    h("span", { class: "nowrap" }, h("meter", { min: 0, max: 2, value: worth, "aria-label": `worth ${worth.toFixed(2)}` }), h("span", { class: "small" }, ` ${worth.toFixed(2)}`)),
    h("span", { class: "quiet small" }, `recency ${recency.toFixed(2)} × accesses ${accesses.toFixed(2)} × importance ${importance.toFixed(2)}`),
    h("button", { type: "button", class: "plain", "aria-label": `Archive ${hit.anchor}`, onclick: () => archive(this, hit.anchor) }, "Archive…"));
  }
}
