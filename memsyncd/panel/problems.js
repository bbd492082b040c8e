// The problems of notes and folders, each with a button for its remedy, and the findings of the doctor on request.

import { count, empty, fill, h, nameNote, notePath, sentence, table, withCode, withCommands } from "./dom.js";
import { report, View } from "./view.js";
import { correctLink, writeNote } from "./write.js";

const SHOWN = 100;
/** @type {Record<string, string>} */
const LEVELS = { error: "error", warning: "warning", info: "note", ok: "in order" };

export class ProblemsView extends View {
  constructor() {
    super();
    this.list = h("section");
    this.findings = h("section", { "aria-live": "polite" });
    this.verify = h("input", { type: "checkbox", role: "switch", "aria-label": "Read every note again and compare it with the index" });
    this.run = h("button", { type: "button", onclick: () => this.check() }, "Check now");
  }

  connectedCallback() {
    if (this.firstChild) return;
    fill(this, this.list, h("h2", {}, "Check everything"), h("p", { class: "quiet" }, "The doctor examines folders, indexes, the history and the connections of agents."),
      h("p", { class: "tools" }, this.run, h("label", { class: "switch" }, this.verify, "Read every note again and compare it with the index")), this.findings);
  }

  /** @param {import("./view.js").Place} place */
  async open(place) {
    if (place.workspace !== this.place.workspace) fill(this.findings);
    await super.open(place);
  }

  /** @param {AbortSignal} signal */
  async read(signal) {
    const [found, dangling] = await Promise.all([this.ask("problems", { limit: SHOWN }, signal), this.ask("links", { dangling: true, limit: SHOWN }, signal)]);
    const rows = found.problems, left = found.n_problems - rows.length;
    fill(this.list, rows.length + dangling.links.length === 0 && empty("No problems", h("p", {}, "Every note could be read, and every link leads to a note.")),
      rows.length > 0 && [h("h2", {}, count(found.n_problems, "problem")), h("ul", { class: "list" }, rows.map((/** @type {any} */ problem) => this.makeProblem(problem)))],
      left > 0 && h("p", { class: "quiet" }, withCommands(`${count(left, "more problem")}: memsyncd problems`)),
      dangling.links.length > 0 && [h("h2", {}, `${count(dangling.n_links, "link")} that ${dangling.n_links === 1 ? "leads" : "lead"} to no note or heading`), h("ul", { class: "list" }, dangling.links.map((/** @type {any} */ link) => this.makeLink(link))),
        dangling.n_links > SHOWN && h("p", { class: "quiet" }, withCommands(`the first ${SHOWN} are shown; all: memsyncd links --dangling`))]);
  }

  /** @param {any} problem */
  makeProblem(problem) {
    const href = this.noteHref(problem.path, problem.line || undefined);
    return h("li", {}, h("a", { class: "entry", href }, nameNote(problem.path)), " ", h("span", { class: "quiet small" }, problem.line ? `${problem.path}, line ${problem.line}` : problem.path),
      h("p", {}, withCode(sentence(problem.problem))), problem.hint && h("p", { class: "quiet" }, withCommands(sentence(problem.hint))),
      h("p", { class: "tools" }, h("a", { class: "button", href }, problem.line ? `Go to line ${problem.line}` : "Open the note"), problem.code && h("span", { class: "badge" }, problem.code.replace(/_/g, " "))));
  }

  /** @param {any} link */
  makeLink(link) {
    const path = notePath(link.source), line = link.lines[0];
    return h("li", {}, h("a", { class: "entry", href: this.noteHref(path, line) }, nameNote(path)), " ", h("span", { class: "quiet small" }, `${path}, line ${line}`),
      h("p", {}, "leads to ", h("code", {}, link.is_heading_missing ? `${link.target}#${link.heading}` : link.target), link.is_outside ? ", which is outside of the workspace" : link.is_heading_missing && `: ${nameNote(link.to)} has no such heading`),
      h("p", { class: "tools" }, link.similar && h("button", { type: "button", onclick: () => void correctLink(this, path, line, link) }, `Lead it to ${nameNote(link.similar)}…`),
        !link.is_outside && !link.is_heading_missing && !/[/#.]/.test(link.target) && h("button", { type: "button", onclick: () => void writeNote(this, link.target) }, "Write this note…"),
        h("a", { class: "button", href: this.noteHref(path, line) }, `Go to line ${line}`)));
  }

  async check() {
    const { workspace } = this.place;
    this.run.disabled = true;
    fill(this.findings, h("p", { class: "quiet" }, "Checking…"));
    try {
      const found = await this.ask("doctor", { verify: this.verify.checked });
      if (workspace === this.place.workspace) this.showFindings(found.findings);
    } catch (error) {
      fill(this.findings);
      report(error);
    } finally {
      this.run.disabled = false;
    }
  }

  /** @param {any[]} findings */
  showFindings(findings) {
    const order = Object.keys(LEVELS);
    const makeRows = (/** @type {any[]} */ some) => some.toSorted((one, other) => order.indexOf(one.level) - order.indexOf(other.level))
      .map((finding) => [h("span", { class: `level ${finding.level}` }, LEVELS[finding.level] ?? finding.level), finding.what, finding.where && h("code", {}, finding.where), finding.remedy && withCommands(finding.remedy)]);
    const bad = findings.filter((finding) => finding.level === "error" || finding.level === "warning");
    const good = findings.filter((finding) => !bad.includes(finding));
    const heads = ["", "Finding", "Where", "Remedy"];
    fill(this.findings, h("p", {}, bad.length ? `${count(bad.length, "finding")} to act on` : "Everything is in order."), bad.length > 0 && table("Findings to act on", heads, makeRows(bad)),
      good.length > 0 && h("details", { open: !bad.length }, h("summary", {}, `${count(good.length, "check")} in order`), table("Checks in order", heads, makeRows(good))));
  }
}
