// Topics: notes whose sections are fields with dated values; one topic with its state, its relations
// and the history of each field.

import { badges, command, copyButton, count, empty, fill, h, lead, makeSwitch, nameNote, notePath, quote, table, when } from "./dom.js";
import { report, View } from "./view.js";
import { appendValue, archive, createTopic, restore } from "./write.js";

const STEP = 100;
const MOST = 1000;
const ORDERS = [["worth", "worth"], ["recency", "newest"], ["file", "name"]];

export class TopicsView extends View {
  constructor() {
    super();
    this.tools = h("div", { class: "chips" });
    this.list = h("ol", { class: "timeline" });
    this.topic = h("section", { class: "change", "aria-live": "polite" });
    this.frame = h("div", { class: "past" }, h("section", {}, this.list), this.topic);
    /** The fields whose history is open, by anchor. @type {Set<string>} */
    this.opened = new Set();
  }

  connectedCallback() {
    if (!this.firstChild) fill(this, lead("A topic is a note about one thing. Its sections are fields, and a field keeps its earlier values with their dates."), this.tools, this.frame);
  }

  /** @param {AbortSignal} signal */
  async read(signal) {
    const { topic, sort = "worth", archived = "", n = "" } = this.place.values;
    const limit = Number(n) || STEP;
    const found = await this.ask("topic.list", { sort, include_archived: Boolean(archived), limit }, signal);
    this.showTools(sort, archived, found);
    this.frame.toggleAttribute("data-chosen", Boolean(topic));
    const chosen = topic ?? found.topics[0]?.path;
    fill(this.list, found.topics.map((/** @type {any} */ info) => h("li", {}, h("a", {
      class: "entry", href: this.topicHref(info.path), "aria-current": info.path === chosen ? "true" : null, title: info.path,
    }, info.title || nameNote(info.path)), h("p", { class: "quiet" }, badges({ kind: info.kind, status: info.status }), `${count(info.fields.length, "field")} · `, when(info.modified_at)))),
    found.n_topics > limit && limit < MOST && h("li", {}, h("a", { class: "button", href: this.href("topics", { ...this.place.values, n: MOST }) }, `First ${Math.min(MOST, found.n_topics).toLocaleString()} topics`)));
    if (chosen) await this.showTopic(chosen, signal);
    else fill(this.topic, empty("There is no topic yet.", h("p", {}, "A topic is a note about one thing. Each of its sections is a field, such as Status or Owner, and keeps its earlier values with their dates."),
      h("p", {}, h("button", { type: "button", class: "main", onclick: () => createTopic(this) }, "New topic…")), h("p", {}, "In a terminal: ", command("memsyncd topic create 'Auth service' --field 'Status=Redis 7'"))));
  }

  /** @param {string} sort @param {string} archived @param {any} found */
  showTools(sort, archived, found) {
    const order = h("select", { onchange: () => (location.hash = this.href("topics", { ...this.place.values, sort: order.value })) },
      ORDERS.map(([name, label]) => h("option", { value: name, selected: name === sort }, label)));
    fill(this.tools, h("button", { type: "button", class: "main", onclick: () => createTopic(this) }, "New topic…"), h("label", {}, "Order", order),
      makeSwitch("Archived too", Boolean(archived), (isOn) => (location.hash = this.href("topics", { ...this.place.values, archived: isOn ? "1" : "" }))),
      h("span", { class: "quiet", role: "status" }, count(found.n_topics, "topic")));
  }

  /** @param {string} path */
  topicHref(path) {
    return this.href("topics", { ...this.place.values, topic: path });
  }

  /** @param {string} path @param {AbortSignal} signal */
  async showTopic(path, signal) {
    const archived = Boolean(this.place.values.archived);
    const [topic, linked] = await Promise.all([this.ask("topic.get", { topic: path, include_archived: archived, track_access: false }, signal),
      this.ask("links", { path, direction: "out", limit: 200 }, signal)]);
    const texts = [topic.summary, ...topic.fields.flatMap((/** @type {any} */ field) => field.values.map((/** @type {any} */ value) => value.text))];
    const [summary, ...values] = await this.renderTexts(texts, signal);
    const fields = await Promise.all(topic.fields.map((/** @type {any} */ field) => this.makeField(topic, field, values.splice(0, field.values.length), signal)));
    const isArchived = topic.status === "archived" || topic.fields.length > 0 && topic.fields.every((/** @type {any} */ field) => field.status === "archived");
    const relations = topic.relations.map((/** @type {any} */ relation) => {
      const link = linked.links.find((/** @type {any} */ other) => other.relation === relation.kind && relation.to.startsWith(other.target) && other.to);
      const name = relation.to.replace(/^\[\[|\]\]$/g, "");
      return h("li", {}, h("span", { class: "quiet" }, `${relation.kind.replace(/_/g, " ")} `), link ? h("a", { href: this.topicHref(notePath(link.to)) }, name) : `${name} (no note has this name)`);
    });
    fill(this.topic, h("a", { class: "button plain back", href: this.topicHref("") }, "‹ all topics"), h("h2", {}, topic.title || nameNote(topic.path)),
      h("p", { class: "quiet small" }, h("code", {}, topic.path), ` · recalled ${topic.accesses === 1 ? "once" : `${topic.accesses} times`}`), h("p", {}, badges(topic)),
      h("p", { class: "tools" }, h("button", { type: "button", class: "edit", onclick: () => appendValue(this, topic) }, "Append a value… (e)"),
        isArchived ? h("button", { type: "button", onclick: () => restore(this, topic.path) }, "Restore") : h("button", { type: "button", onclick: () => archive(this, topic.path, "topic") }, "Archive"),
        h("a", { class: "button", href: this.noteHref(topic.path) }, "Open the note"), h("a", { class: "button plain", href: this.href("history", { path: topic.path }) }, "Its history"), h("a", { class: "button plain", href: this.href("graph", { path: topic.path }) }, "Its links"),
        copyButton("Copy command", `memsyncd topic get ${quote(topic.path)}`)),
      topic.summary && summary,
      relations.length > 0 && [h("h3", {}, "Relations"), h("ul", { class: "list" }, relations)],
      fields.length ? fields : h("p", { class: "quiet" }, "This topic has no field yet: append a value to make one."));
  }

  /** @param {any} topic @param {any} field @param {HTMLElement[]} texts @param {AbortSignal} signal */
  async makeField(topic, field, texts, signal) {
    const isOpen = this.opened.has(field.anchor);
    const past = h("div");
    const show = async (/** @type {AbortSignal | undefined} */ given) => {
      const found = await this.ask("field.history", { topic: topic.path, field: field.anchor }, given);
      const rendered = await this.renderTexts(found.values.map((/** @type {any} */ value) => value.text), given);
      fill(past, table(`History of ${field.name}`, ["Value", "Given", "In the note", "Written", "Change"], found.values.map((/** @type {any} */ value, /** @type {number} */ at) => [
        rendered[at], value.at ?? "", value.is_current ? "yes" : "no", value.recorded_at ? [when(value.recorded_at), ` by ${value.client || "another program"}`] : "",
        value.revision ? h("a", { href: this.href("history", { path: topic.path, revision: value.revision }) }, "show") : ""])));
    };
    const details = h("details", { open: isOpen }, h("summary", {}, `History of ${field.name}`), past);
    details.addEventListener("toggle", () => {
      if (!details.isConnected || details.open === this.opened.has(field.anchor)) return;
      if (details.open) this.opened.add(field.anchor);
      else this.opened.delete(field.anchor);
      if (details.open) show(undefined).catch(report);
    });
    if (isOpen) await show(signal);
    const own = { kind: field.kind === topic.kind ? null : field.kind, priority: field.priority, status: field.status === topic.status ? null : field.status, is_expired: field.is_expired };
    return h("section", { class: "card" }, h("h3", {}, h("a", { class: "entry", href: this.noteHref(topic.path, field.start_line) }, field.name), " ", badges(own)),
      h("ul", { class: "values" }, field.values.map((/** @type {any} */ value, /** @type {number} */ at) => h("li", {}, value.at && h("time", { class: "quiet", datetime: value.at }, value.at.slice(0, 16).replace("T", " ")), texts[at] ?? ""))),
      details);
  }
}
