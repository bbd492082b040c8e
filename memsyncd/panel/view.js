// The base of all views: a custom element that reads from the daemon, shows the answer, and reads
// again when its workspace has changed.

import { fill, h, parseRendered } from "./dom.js";
import { call, RpcError } from "./rpc.js";

/**
 * @typedef {object} Place The address of a view, which the page keeps in its URL.
 * @property {string} view
 * @property {string} workspace
 * @property {Record<string, string>} values
 */

/**
 * Return the fragment of a URL for a place.
 * @param {string} view
 * @param {string} workspace
 * @param {Record<string, string | number | null | undefined>} [values]
 */
export function makeHref(view, workspace, values = {}) {
  const query = new URLSearchParams({ w: workspace });
  for (const [name, value] of Object.entries(values)) {
    if (value !== null && value !== undefined && value !== "") query.set(name, String(value));
  }
  return `#${view}?${query}`;
}

/** @param {string} hash @returns {Place} */
export function parseHref(hash) {
  const [view, query] = hash.replace(/^#/, "").split("?", 2);
  const values = Object.fromEntries(new URLSearchParams(query ?? ""));
  const { w = "", ...others } = values;
  return { view: view ?? "", workspace: w, values: others };
}

/**
 * Show an error until the user closes it, or a message for a while; return the line.
 * @param {unknown} what @param {number} [forMs]
 */
export function report(what, forMs = 8000) {
  const box = document.getElementById("messages");
  if (!box || (what instanceof DOMException && what.name === "AbortError")) return null;
  const isError = what instanceof Error;
  const text = isError ? what.message : String(what);
  const hint = what instanceof RpcError && what.hint ? ` → ${what.hint}` : "";
  const close = h("button", { type: "button", "aria-label": "Close this message" }, "×");
  const line = h("p", { class: isError ? "error" : "done" }, h("span", {}, text + hint), close);
  close.addEventListener("click", () => line.remove());
  // A line that has the focus stays.
  if (!isError) setTimeout(() => line.contains(document.activeElement) || line.remove(), forMs);
  box.append(line);
  return line;
}

/** Most texts of one request to render. */
const MOST_TEXTS = 200;

export class View extends HTMLElement {
  constructor() {
    super();
    /** @type {Place} */
    this.place = { view: "", workspace: "", values: {} };
    /** @type {AbortController | null} */
    this.reading = null;
    /** True if no event tells of changes in this view: the page reads it again every few seconds. */
    this.isPolled = false;
    /** True if the index has changed since the reading began. */
    this.isStale = false;
    this.failure = h("p", { class: "error failure", role: "alert", hidden: true });
  }

  /** Show this place. @param {Place} place */
  async open(place) {
    this.place = place;
    await this.reload();
  }

  /** Read again and show the answer; an earlier reading is cancelled. */
  async reload() {
    this.isStale = false;
    this.reading?.abort();
    const reading = new AbortController();
    this.reading = reading;
    this.setAttribute("aria-busy", "true");
    try {
      await this.read(reading.signal);
      this.failure.hidden = true;
    } catch (error) {
      if (!reading.signal.aborted) this.fail(error);
    } finally {
      if (this.reading === reading) this.removeAttribute("aria-busy");
      if (this.reading === reading && this.isStale) void this.reload();
    }
  }

  disconnectedCallback() {
    this.reading?.abort();
  }

  /** Read and show; overridden by each view. @param {AbortSignal} _signal @returns {Promise<void>} */
  async read(_signal) {}

  /** True while the view holds text that is not saved; the page asks before it leaves such a view. */
  hasUnsaved() {
    return false;
  }

  /** The index has changed. @param {{paths: string[], workspace: string}} _changed */
  changed(_changed) {
    // If each of many changes began anew, the view would be empty until the last one.
    if (this.hasAttribute("aria-busy")) this.isStale = true;
    else void this.reload();
  }

  /** Show an error above the earlier answer. @param {unknown} error */
  fail(error) {
    const message = error instanceof Error ? error.message : String(error);
    const hint = error instanceof RpcError ? error.hint : "";
    const again = h("button", { type: "button", onclick: () => this.reload() }, "Try again");
    this.failure.hidden = false;
    fill(this.failure, message, hint && h("span", { class: "quiet" }, ` → ${hint} `), " ", again);
    this.prepend(this.failure);
  }

  /**
   * Call a method for this view's workspace.
   * @param {string} method @param {Record<string, unknown>} [params] @param {AbortSignal} [signal]
   */
  ask(method, params = {}, signal) {
    return call(method, { workspace: this.place.workspace, ...params }, signal);
  }

  /**
   * Render pieces of markdown; each becomes an element. Links lead to the notes that they name.
   * @param {string[]} texts @param {AbortSignal} [signal] @returns {Promise<HTMLElement[]>}
   */
  async renderTexts(texts, signal) {
    const wanted = texts.slice(0, MOST_TEXTS);
    const { htmls } = wanted.length ? await this.ask("render.texts", { texts: wanted }, signal) : { htmls: [] };
    return texts.map((text, at) => {
      const element = h("div", { class: "prose" });
      element.append(htmls[at] === undefined ? text : parseRendered(htmls[at]));
      for (const link of element.querySelectorAll("a[data-note]")) link.setAttribute("href", this.noteHref(link.getAttribute("data-note") ?? ""));
      return element;
    });
  }

  /** @param {string} view @param {Record<string, string | number | null | undefined>} [values] */
  href(view, values) {
    return makeHref(view, this.place.workspace, values);
  }

  /** The link to a note or to a line of it. @param {string} path @param {number} [line] */
  noteHref(path, line) {
    return this.href("notes", { path, line: line ?? null });
  }
}
