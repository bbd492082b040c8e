// Topics: notes whose sections are fields with dated values; one topic with its state, its relations
// and the history of each field.

import { badges, count, fill, h, notePath, table, when } from "./dom.js";
import { report, View } from "./view.js";
import { appendValue, archive, createTopic, restore } from "./write.js";

const STEP = 100;
const MOST = 1000;
const ORDERS = ["worth", "recency", "file"];

export class TopicsView extends View {
  constructor() {
    super();
    this.tools = h("div", { class: "chips" });
    this.list = h("ol", { class: "timeline" });
    this.topic = h("section", { class: "change", "aria-live": "polite" });
    /** The fields whose history is open, by anchor. @type {Set<string>} */
    this.opened = new Set();
  }

  connectedCallback() {
    if (!this.firstChild) fill(this, this.tools, h("div", { class: "past" }, h("section", {}, this.list), this.topic));
  }

  /** @param {AbortSignal} signal */
  async read(signal) {
    const { topic, sort = "worth", archived = "", n = "" } = this.place.values;
    const limit = Number(n) || STEP;
    const found = await this.ask("topic.list", { sort, include_archived: Boolean(archived), limit }, signal);
    this.showTools(sort, archived, found);
    const chosen = topic ?? found.topics[0]?.path;
    fill(this.list, found.topics.map((/** @type {any} */ one) => h("li", {}, h("a", {
      class: "entry", href: this.topicHref(one.path), "aria-current": one.path === chosen ? "true" : null,
    }, one.title || one.path), " ", badges(one), h("p", { class: "quiet" }, `${count(one.fields.length, "field")} · worth ${one.worth.toFixed(2)} · `, when(one.modified_at)))),
    found.n_topics > limit && limit < MOST && h("li", {}, h("a", { class: "chip", href: this.href("topics", { ...this.place.values, n: MOST }) }, `all ${found.n_topics} topics`)));
    if (chosen) await this.showTopic(chosen, signal);
    else fill(this.topic, h("p", {}, "There is no topic yet. A topic is a note whose sections are fields: make one with “New topic…”."));
  }

  /** @param {string} sort @param {string} archived @param {any} found */
  showTools(sort, archived, found) {
    const order = h("select", { onchange: () => (location.hash = this.href("topics", { ...this.place.values, sort: order.value })) },
      ORDERS.map((name) => h("option", { selected: name === sort }, name)));
    fill(this.tools, h("button", { type: "button", onclick: () => createTopic(this) }, "New topic…"), h("label", {}, "Order ", order),
      h("a", { class: "chip", href: this.href("topics", { ...this.place.values, archived: archived ? "" : "1" }) }, archived ? "hide archived" : "show archived"),
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
    const fields = await Promise.all(topic.fields.map((/** @type {any} */ one) => this.makeField(topic, one, signal)));
    const isArchived = topic.status === "archived" || topic.fields.length > 0 && topic.fields.every((/** @type {any} */ one) => one.status === "archived");
    const relations = topic.relations.map((/** @type {any} */ one) => {
      const link = linked.links.find((/** @type {any} */ other) => other.relation === one.kind && one.to.startsWith(other.target) && other.to);
      return h("li", {}, `${one.kind} → `, link ? h("a", { href: this.topicHref(notePath(link.to)) }, one.to) : `${one.to} (no note has this name)`);
    });
    fill(this.topic, h("h2", {}, h("a", { href: this.noteHref(topic.path) }, topic.title || topic.path)), h("p", {}, badges(topic)),
      h("p", { class: "quiet" }, h("code", {}, topic.path), ` · worth ${topic.worth.toFixed(2)} · ${count(topic.accesses, "access", "accesses")}`),
      topic.summary && h("p", { class: "summary" }, topic.summary),
      h("p", { class: "tools" }, h("button", { type: "button", class: "edit", onclick: () => appendValue(this, topic) }, "Append a value… (e)"),
        isArchived ? h("button", { type: "button", onclick: () => restore(this, topic.path) }, "Restore") : h("button", { type: "button", onclick: () => archive(this, topic.path, "topic") }, "Archive"),
        h("a", { href: this.href("history", { path: topic.path }) }, "history"), h("a", { href: this.href("graph", { path: topic.path }) }, "links")),
      relations.length > 0 && [h("h3", {}, "Relations"), h("ul", {}, relations)],
      fields.length ? fields : h("p", { class: "quiet" }, "This topic has no field yet."));
  }

  /** @param {any} topic @param {any} field @param {AbortSignal} signal */
  async makeField(topic, field, signal) {
    const isOpen = this.opened.has(field.anchor);
    const past = h("div");
    const show = async (/** @type {AbortSignal | undefined} */ given) => {
      const found = await this.ask("field.history", { topic: topic.path, field: field.anchor }, given);
      fill(past, table(`History of ${field.name}`, ["Value", "Given", "In the note", "Written", "Change"], found.values.map((/** @type {any} */ one) => [
        h("span", { class: "summary" }, one.text), one.at ?? "", one.is_current ? "yes" : "no", one.recorded_at ? [when(one.recorded_at), ` by ${one.client || "another program"}`] : "",
        one.revision ? h("a", { href: this.href("history", { path: topic.path, revision: one.revision }) }, `#${one.change_set}`) : ""])));
    };
    const details = h("details", { open: isOpen }, h("summary", {}, `History of ${field.name}`), past);
    details.addEventListener("toggle", () => {
      if (!details.isConnected || details.open === this.opened.has(field.anchor)) return;
      if (details.open) this.opened.add(field.anchor);
      else this.opened.delete(field.anchor);
      if (details.open) show(undefined).catch(report);
    });
    if (isOpen) await show(signal);
    return h("section", { class: "card" }, h("h3", {}, h("a", { class: "entry", href: this.noteHref(topic.path, field.start_line) }, field.name), " ", badges(field)),
      h("ul", { class: "values" }, field.values.map((/** @type {any} */ one) => h("li", {}, one.at && h("time", { class: "quiet", datetime: one.at }, `${one.at.slice(0, 16).replace("T", " ")} `), h("span", { class: "summary" }, one.text)))),
      details);
  }
}
