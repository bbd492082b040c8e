// The worth of memories: tiers, and the sections with the factors of their worth.

import { badges, count, fill, h, table } from "./dom.js";
import { View } from "./view.js";
import { archive } from "./write.js";

// One answer can list the sections of a vault up to this size. A larger vault is searched for its best
// sections; a search joins neighbours in a note into one hit.
const LISTED = 3000;
const SHOWN = 300;
const SEARCHED = 200;
const TIERS = ["hot", "warm", "cold"];

export class DecayView extends View {
  /** @param {Record<string, string[]>} filters @param {AbortSignal} signal @returns {Promise<any[]>} */
  async list(filters, signal) {
    const notes = await this.listNotes({ explain: true, sort: "worth", filters }, signal);
    return notes.flatMap((/** @type {any} */ note) => note.sections.map((/** @type {any} */ one) => ({ ...one, path: note.path })))
      .sort((/** @type {any} */ one, /** @type {any} */ other) => (other.worth ?? 0) - (one.worth ?? 0));
  }

  /** @param {AbortSignal} signal */
  async read(signal) {
    const tier = this.place.values.tier ?? "";
    const counts = await Promise.all(TIERS.map((name) => this.ask("stats", { by: [], filters: { tier: [name] } }, signal)));
    const sizes = new Map(TIERS.map((name, at) => [name, Number(counts[at].sections)]));
    const all = [...sizes.values()].reduce((sum, n) => sum + n, 0);
    const total = tier ? sizes.get(tier) ?? 0 : all;
    const filters = { tier: tier ? [tier] : TIERS };
    const isListed = all <= LISTED;
    const sections = isListed ? await this.list(filters, signal)
      : (await this.ask("search", { query: "", sort: "worth", explain: true, limit: SEARCHED, filters, timeout_ms: 10_000 }, signal)).hits;
    const rows = sections.slice(0, SHOWN).map((/** @type {any} */ one) => {
      const { worth = 0, decay_recency: recency = 0, decay_accesses: accesses = 0, decay_importance: importance = 0 } = one.explain ?? {};
      const name = one.heading.at(-1) ?? one.path;
      return [[h("a", { class: "entry", href: this.noteHref(one.path, one.start_line) }, name), h("div", { class: "quiet" }, h("code", {}, one.path))], badges(one),
        h("meter", { min: 0, max: 2, value: worth, "aria-label": "worth" }), worth.toFixed(3), recency.toFixed(3), accesses.toFixed(2), importance.toFixed(2), h("time", {}, (one.created ?? one.day).slice(0, 10)),
        h("button", { type: "button", "aria-label": `Archive ${one.anchor}`, onclick: () => archive(this, one.anchor) }, "archive")];
    });
    const chip = (/** @type {string} */ name, /** @type {number} */ n) => h("a", {
      class: "chip", href: this.href("decay", { tier: name }), "aria-current": tier === name ? "true" : null,
    }, `${name || "all"} (${n.toLocaleString()})`);
    const left = total <= rows.length ? "" : isListed ? `, the first ${rows.length} are shown` : `, the first ${rows.length} groups of neighbours are shown`;
    fill(this, h("nav", { class: "chips", "aria-label": "Tiers" }, chip("", all), TIERS.map((name) => chip(name, sizes.get(name) ?? 0))),
      h("p", { class: "quiet" }, "worth = recency × accesses × importance; ", count(total, "section"), left),
      rows.length ? table("Sections by worth", ["Section", "Labels", "", "Worth", "Recency", "Accesses", "Importance", "Date", ""], rows) : h("p", {}, "No section is in this tier."));
  }
}
