// What agents got from hooks and tools, session by session: sections with their tokens, what was
// written, and what was left out.

import { count, fill, h, when } from "./dom.js";
import { report, View } from "./view.js";

const PAGE = 50;
const MOST = 200;

export class AgentsView extends View {
  constructor() {
    super();
    this.isPolled = true;
    this.sessions = h("ol", { class: "timeline" });
    this.answers = h("section", { class: "answers", "aria-live": "polite" });
    /** @type {any[]} The answers to the session that is shown, the latest first. */
    this.shown = [];
    this.shownKey = "";
    this.hasMore = false;
  }

  connectedCallback() {
    if (!this.firstChild) fill(this, h("div", { class: "past" }, h("section", {}, h("h2", {}, "Sessions"), this.sessions), this.answers));
  }

  /** @param {AbortSignal} signal */
  async read(signal) {
    const { sessions } = await this.ask("log.agents", { limit: 1 }, signal);
    const { client, session } = this.place.values;
    const chosen = sessions.find((/** @type {any} */ one) => one.client === client && one.session === (session ?? "")) ?? sessions[0];
    this.showSessions(sessions, chosen);
    if (!chosen) {
      fill(this.answers, h("p", {}, "No agent was given anything yet. Connect one in a terminal: ", h("code", {}, "memsyncd integrate"), ". Then each hook and each tool that it calls is listed here, with the sections that it got."));
      return;
    }
    const key = `${this.place.workspace} ${chosen.client} ${chosen.session}`;
    // Pages that were read stay while the session is the same.
    const limit = key === this.shownKey ? Math.min(MOST, Math.max(PAGE, this.shown.length)) : PAGE;
    const log = await this.askSession(chosen, { limit }, signal);
    const last = log.answers.at(-1)?.id ?? 0;
    const older = key === this.shownKey ? this.shown.filter((one) => one.id < last) : [];
    this.hasMore = older.length ? this.hasMore : log.has_more;
    [this.shown, this.shownKey] = [[...log.answers, ...older], key];
    this.showAnswers(chosen);
  }

  /** The answers to one session; the daemon also finds sessions whose names begin alike. @param {any} chosen @param {Record<string, unknown>} params @param {AbortSignal} [signal] */
  async askSession(chosen, params, signal) {
    const log = await this.ask("log.agents", { agent: chosen.client, session: chosen.session, ...params }, signal);
    return { ...log, answers: log.answers.filter((/** @type {any} */ one) => one.session === chosen.session && one.client === chosen.client) };
  }

  /** @param {any[]} sessions @param {any} chosen */
  showSessions(sessions, chosen) {
    fill(this.sessions, sessions.map((one) => h("li", {},
      h("a", {
        class: "entry", href: this.href("agents", { client: one.client, session: one.session }), "aria-current": one === chosen ? "true" : null,
        "aria-label": `${nameAgent(one)}, session ${one.session || "without a name"}`,
      }, nameAgent(one)),
      h("p", { class: "quiet" }, when(one.last_at), ` · ${count(one.answers, "answer")}, ${count(one.tokens, "token")}`, one.writes > 0 && `, wrote ${count(one.writes, "time")}`,
        h("br"), h("code", {}, one.session || "no session")))));
  }

  /** @param {any} chosen */
  showAnswers(chosen) {
    const more = h("button", { type: "button", onclick: () => this.readMore(chosen) }, "Older answers");
    fill(this.answers, h("h2", {}, nameAgent(chosen)),
      h("p", { class: "quiet" }, "Session ", h("code", {}, chosen.session || "without a name"), ", from ", when(chosen.first_at), " to ", when(chosen.last_at), ". The latest answer is on top."),
      h("ol", { class: "timeline" }, this.shown.map((one) => this.showAnswer(one)), this.hasMore && h("li", {}, more)));
  }

  /** @param {any} answer */
  showAnswer(answer) {
    const list = (/** @type {string} */ act) => answer.sections.filter((/** @type {any} */ one) => one.act === act);
    const [given, written, left] = [list("given"), list("written"), list("left out")];
    const counts = Object.entries(answer.left_out).map(([reason, n]) => `${Number(n).toLocaleString()} ${reason}`).join(", ");
    return h("li", {},
      h("h3", {}, answer.call, " ", h("span", { class: "quiet" }, clock(answer.at))),
      h("p", { class: answer.failure ? "error" : "" }, answer.summary, answer.change_set !== null && ` · change set ${answer.change_set}`),
      answer.query && h("p", { class: "quiet" }, `“${answer.query}”`),
      given.length > 0 && h("ul", { class: "values" }, given.map((/** @type {any} */ one) => this.showSection(one))),
      written.length > 0 && h("ul", { class: "values" }, written.map((/** @type {any} */ one) => this.showSection(one))),
      answer.unlisted > 0 && h("p", { class: "quiet" }, `and ${count(answer.unlisted, "more section")}`),
      counts && (left.length ? h("details", {}, h("summary", {}, `Left out: ${counts}`), h("ul", { class: "values" }, left.map((/** @type {any} */ one) => this.showSection(one))))
        : h("p", { class: "quiet" }, `Left out: ${counts}`)));
  }

  /** @param {any} section */
  showSection(section) {
    const place = section.start_line === null ? section.anchor : `${section.path}:${section.start_line}–${section.end_line}`;
    const name = section.heading || place;
    const href = section.workspace ? null : this.noteHref(section.path, section.start_line);
    const facts = [section.heading ? place : "", section.workspace ?? "", section.act === "written" ? "written" : "", section.tokens === null ? "" : count(section.tokens, "token"), section.reason].filter(Boolean);
    return h("li", {}, href ? h("a", { class: "entry", href }, name) : name, facts.length > 0 && h("span", { class: "quiet" }, ` ${facts.join(" · ")}`));
  }

  /** @param {any} chosen */
  async readMore(chosen) {
    try {
      const log = await this.askSession(chosen, { limit: PAGE, before: this.shown.at(-1).id });
      this.shown.push(...log.answers);
      this.hasMore = log.has_more;
      this.showAnswers(chosen);
    } catch (error) {
      report(error);
    }
  }
}

/** @param {any} one A session. */
function nameAgent(one) {
  return one.agent === one.client ? one.client : `${one.agent} (${one.client})`;
}

/** The time of day, because the answers to a session follow each other closely. @param {number} at */
function clock(at) {
  const moment = new Date(at * 1000);
  return h("time", { datetime: moment.toISOString(), title: moment.toLocaleString() }, moment.toLocaleTimeString());
}
