// What memories are worth at their age: tiers, and the sections with the factors of their decay.

import { badges, count, fill, h, table } from "./dom.js";
import { View } from "./view.js";
import { archive } from "./write.js";

const SHOWN = 300;
const TIERS = ["hot", "warm", "cold"];

export class DecayView extends View {
  /** @param {AbortSignal} signal */
  async read(signal) {
    const tier = this.place.values.tier ?? "";
    const found = await this.ask("list", { explain: true, sort: "decay" }, signal);
    /** @type {any[]} */
    const sections = found.notes.flatMap((/** @type {any} */ note) => note.sections.map((/** @type {any} */ one) => ({ ...one, path: note.path })));
    sections.sort((one, other) => (other.explain?.decay_score ?? 0) - (one.explain?.decay_score ?? 0));
    const chosen = tier ? sections.filter((one) => one.tier === tier) : sections;
    const rows = chosen.slice(0, SHOWN).map((one) => {
      const parts = one.explain ?? {};
      return [h("a", { class: "entry", href: this.noteHref(one.path, one.start_line) }, one.anchor), badges(one), h("meter", { min: 0, max: 2, value: parts.decay_score ?? 0, "aria-label": "decay" }),
        (parts.decay_score ?? 0).toFixed(3), (parts.decay_recency ?? 0).toFixed(3), (parts.decay_accesses ?? 0).toFixed(2), (parts.decay_importance ?? 0).toFixed(2), one.created ?? one.day,
        h("button", { type: "button", "aria-label": `Archive ${one.anchor}`, onclick: () => archive(this, one.anchor) }, "archive")];
    });
    fill(this, h("nav", { class: "chips", "aria-label": "Tiers" }, h("a", { class: "chip", href: this.href("decay"), "aria-current": tier ? null : "true" }, `all (${sections.length})`),
      TIERS.map((name) => h("a", { class: "chip", href: this.href("decay", { tier: name }), "aria-current": tier === name ? "true" : null }, `${name} (${sections.filter((one) => one.tier === name).length})`))),
    h("p", { class: "quiet" }, "decay = recency × accesses × importance; ", count(chosen.length, "section"), chosen.length > SHOWN ? `, the first ${SHOWN} are shown` : ""),
    table("Sections by decay", ["Section", "Labels", "", "Decay", "Recency", "Accesses", "Importance", "Date", ""], rows));
  }
}
