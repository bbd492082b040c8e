// The problems of notes and folders with their remedies, and the findings of the doctor on request.

import { fill, h, table } from "./dom.js";
import { View } from "./view.js";

export class ProblemsView extends View {
  /** @param {AbortSignal} signal */
  async read(signal) {
    const found = await this.ask("problems", {}, signal);
    const rows = found.problems.map((/** @type {any} */ one) => [h("a", { class: "entry", href: this.noteHref(one.path, one.line) }, one.line ? `${one.path}:${one.line}` : one.path),
      one.problem, one.hint ?? "", h("code", {}, one.code)]);
    fill(this, rows.length ? table("Problems", ["Where", "Problem", "Remedy", "Code"], rows) : h("p", {}, "No problems."));
  }
}
