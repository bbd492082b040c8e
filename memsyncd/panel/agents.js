// What agents got from hooks and tools, session by session: sections with their tokens, what was
// written, and what was left out.

import { command, count, empty, fill, h, lead, nameAnchor, nameSection, quote, when } from "./dom.js";
import { report, View } from "./view.js";

const PAGE = 50;
const MOST = 200;
/** The calls of hooks and tools in words. @type {Record<string, string>} */
const CALLS = {
  "session-start": "Start of the session", "user-prompt": "Prompt", prompt: "Prompt of the client", resource: "Note as a resource", memory_search: "Searched", memory_context: "Asked for context", memory_get: "Read a note", memory_remember: "Remembered",
  memory_update: "Changed memories", memory_init: "Made a memory", memory: "Used the memory tool", "memory_agent recall": "Recalled", "memory_agent context": "Asked for the context of a task", "memory_agent checkpoint": "Wrote a checkpoint",
  "memory_agent start": "Began a session", "memory_agent end": "Ended its session", "memory_agent resume": "Resumed a session", "memory_agent send": "Sent a signal", "memory_agent inbox": "Read its signals", "memory_agent outbox": "Read the signals it sent", "memory_agent ack": "Acknowledged a signal",
};
/** Why a section was left out, in words. @type {Record<string, string>} */
const REASONS = { "given before": "the session has it already", "no room": "no room", repeated: "the same text is there already", "ranked lower": "ranked below all others" };
const DAY = new Intl.DateTimeFormat(undefined, { weekday: "long", year: "numeric", month: "long", day: "numeric" });
const TIME = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });

export class AgentsView extends View {
  constructor() {
    super();
    this.isPolled = true;
    this.sessions = h("ol", { class: "timeline" });
    this.answers = h("section", { "aria-live": "polite" });
    this.frame = h("div", { class: "past" }, h("section", {}, this.sessions), this.answers);
    /** @type {any[]} The answers to the session that is shown, the latest first. */
    this.shown = [];
    this.shownKey = "";
    this.hasMore = false;
    /** The headings of written sections, which the log does not have. @type {Map<string, string[]>} */
    this.headings = new Map();
  }

  connectedCallback() {
    if (!this.firstChild) fill(this, lead("What each session of an agent was given, what it wrote, and what was left out."), this.frame);
  }

  /** @param {AbortSignal} signal */
  async read(signal) {
    const { sessions } = await this.ask("log.agents", { limit: 1 }, signal);
    const { client, session = "" } = this.place.values;
    const chosen = sessions.find((/** @type {any} */ one) => one.client === client && one.session === session) ?? sessions[0];
    this.frame.toggleAttribute("data-chosen", Boolean(client));
    this.showSessions(sessions, chosen);
    if (!chosen) {
      fill(this.answers, empty("No agent was given anything yet.", h("p", {}, "Each hook and each tool that an agent calls appears here: the notes that it got, with their tokens, what it wrote, and what was left out."),
        h("p", {}, "Connect an agent in a terminal: ", command("memsyncd integrate"))));
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
    await this.readHeadings(log.answers, signal);
    this.showAnswers(chosen);
  }

  /** The answers to one session; the daemon also finds sessions whose names begin alike. @param {any} chosen @param {Record<string, unknown>} params @param {AbortSignal} [signal] */
  async askSession(chosen, params, signal) {
    const log = await this.ask("log.agents", { agent: chosen.client, session: chosen.session, ...params }, signal);
    return { ...log, answers: log.answers.filter((/** @type {any} */ one) => one.session === chosen.session && one.client === chosen.client) };
  }

  /** Read the headings of sections of which the log has only the anchor, once. @param {any[]} answers @param {AbortSignal} [signal] */
  async readHeadings(answers, signal) {
    const unnamed = answers.flatMap((one) => one.sections).filter((one) => !one.heading && !one.workspace && one.anchor !== one.path && !this.headings.has(one.anchor));
    const paths = [...new Set(unnamed.map((one) => one.path))];
    for (const { anchor } of unnamed) this.headings.set(anchor, []);
    if (!paths.length) return;
    // Only names depend on it.
    const { notes } = await this.ask("list", { filters: { path: paths }, limit: paths.length }, signal).catch(() => ({ notes: [] }));
    for (const section of notes.flatMap((/** @type {any} */ note) => note.sections)) this.headings.set(section.anchor, section.heading);
  }

  /** @param {any[]} sessions @param {any} chosen */
  showSessions(sessions, chosen) {
    let day = "";
    fill(this.sessions, sessions.flatMap((one) => {
      const before = day;
      day = DAY.format(one.last_at * 1000);
      return [day !== before && h("li", { class: "day" }, day), h("li", {},
        h("a", {
          class: "entry", href: this.href("agents", { client: one.client, session: one.session }), "aria-current": one === chosen ? "true" : null,
          "aria-label": `${nameAgent(one)}, session ${one.session || "without a name"}`, title: one.session,
        }, nameAgent(one)),
        h("p", { class: "quiet" }, `${TIME.format(one.last_at * 1000)} · ${count(one.answers, "answer")}, ${count(one.tokens, "token")}`, one.writes > 0 && ` · wrote ${one.writes}×`))];
    }));
  }

  /** @param {any} chosen */
  showAnswers(chosen) {
    const more = h("button", { type: "button", onclick: () => this.readMore(chosen) }, "Older answers");
    const words = ["memsyncd log agents --agent", quote(chosen.client), ...(chosen.session ? ["--session", quote(chosen.session)] : [])].join(" ");
    fill(this.answers, h("a", { class: "button plain back", href: this.href("agents") }, "‹ all sessions"), h("h2", {}, nameAgent(chosen)),
      h("p", { class: "quiet small" }, "Session ", h("code", {}, chosen.session || "without a name"), " · began ", when(chosen.first_at), " · last answer ", when(chosen.last_at)),
      h("p", { class: "tools" }, command(words)),
      h("ol", { class: "list" }, this.shown.map((one) => this.showAnswer(one))), this.hasMore && h("p", {}, more));
  }

  /** @param {any} answer */
  showAnswer(answer) {
    const list = (/** @type {any[]} */ sections) => h("ul", { class: "values" }, sections.map((one) => this.showSection(one)));
    const left = answer.sections.filter((/** @type {any} */ one) => one.act === "left out");
    const others = answer.sections.filter((/** @type {any} */ one) => one.act !== "left out");
    const counts = Object.entries(answer.left_out).map(([reason, n]) => `${Number(n).toLocaleString()} (${REASONS[reason] ?? reason})`).join(", ");
    const moment = new Date(answer.at * 1000);
    return h("li", {}, h("p", {}, h("strong", { title: answer.call }, CALLS[answer.call] ?? answer.call), " ", h("time", { class: "quiet small", datetime: moment.toISOString(), title: moment.toLocaleString() }, CLOCK.format(moment))),
      h("p", { class: answer.failure ? "error" : "" }, answer.summary, answer.change_set !== null && h("span", { class: "quiet small" }, ` · step ${answer.change_set}`)),
      answer.query && h("p", { class: "quiet" }, `“${answer.query}”`), others.length > 0 && list(others),
      answer.unlisted > 0 && h("p", { class: "quiet small" }, `and ${count(answer.unlisted, "more section")}`),
      counts && (left.length ? h("details", {}, h("summary", { "aria-label": `Left out at ${CLOCK.format(moment)}: ${counts}` }, `Left out: ${counts}`), list(left)) : h("p", { class: "quiet small" }, `Left out: ${counts}`)));
  }

  /** @param {any} section */
  showSection(section) {
    const heading = section.heading ? section.heading.split(" › ") : this.headings.get(section.anchor) ?? [];
    const name = heading.length ? nameSection({ path: section.path, heading }) : nameAnchor(section.anchor);
    const lines = section.start_line === null ? "" : section.start_line === section.end_line ? `line ${section.start_line}` : `lines ${section.start_line}–${section.end_line}`;
    const facts = [section.act === "written" ? "written" : "", section.tokens === null ? "" : count(section.tokens, "token"), section.path, lines, section.workspace && `workspace ${section.workspace}`, REASONS[section.reason] ?? section.reason].filter(Boolean);
    // The note may be gone, and a section of another workspace has its notes there.
    return h("li", {}, section.workspace ? h("strong", {}, name) : h("a", { class: "entry", href: this.noteHref(section.path, section.start_line ?? undefined) }, name), h("span", { class: "quiet small" }, ` ${facts.join(" · ")}`));
  }

  /** @param {any} chosen */
  async readMore(chosen) {
    try {
      const log = await this.askSession(chosen, { limit: PAGE, before: this.shown.at(-1).id });
      this.shown.push(...log.answers);
      await this.readHeadings(log.answers);
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
