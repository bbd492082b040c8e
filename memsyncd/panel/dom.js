// Makes elements. Text always becomes a text node, so no text of a note is read as markup.

/** @typedef {Node | string | number | null | undefined | false} Child */

/**
 * Make an element. Properties that begin with `on` are listeners; `class`, `aria-…`, `data-…` and
 * others are attributes; true is an attribute without value, false and null are none.
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Record<string, any>} [properties]
 * @param {...(Child | Child[])} children
 * @returns {HTMLElementTagNameMap[T]}
 */
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

/** @param {Element} parent @param {(Child | Child[])[]} children */
export function append(parent, children) {
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    parent.append(child instanceof Node ? child : String(child));
  }
}

/**
 * Replace all children. Focus, scroll positions and opened details pass to the new elements, so that
 * a live update does not disturb a reader.
 * @param {Element} parent @param {...(Child | Child[])} children
 */
export function fill(parent, ...children) {
  const restore = rememberPlace(parent);
  parent.replaceChildren();
  append(parent, children);
  restore();
}

const SCROLLED = ".scroll, pre, textarea";

/** Return a name that an element and its replacement share. @param {Element} element */
function nameElement(element) {
  const name = element.getAttribute("aria-label") ?? element.getAttribute("href")
    ?? element.getAttribute("name") ?? element.textContent?.slice(0, 80);
  return `${element.localName} ${name}`;
}

/** @param {Element} parent @returns {() => void} */
function rememberPlace(parent) {
  const active = /** @type {HTMLElement | null} */ (document.activeElement);
  const focused = active && active !== parent && parent.contains(active) ? active : null;
  const focusedName = focused ? nameElement(focused) : "";
  const scrolled = [...parent.querySelectorAll(SCROLLED)].filter((one) => one.scrollTop || one.scrollLeft)
    .map((one) => ({ name: nameElement(one), top: one.scrollTop, left: one.scrollLeft }));
  const opened = new Set([...parent.querySelectorAll("details[open]:not([data-folder]) > summary")].map(nameElement));
  return () => {
    for (const summary of opened.size ? parent.querySelectorAll("details > summary") : []) {
      if (opened.has(nameElement(summary))) summary.parentElement?.setAttribute("open", "");
    }
    for (const one of scrolled.length ? parent.querySelectorAll(SCROLLED) : []) {
      const before = scrolled.find((other) => other.name === nameElement(one));
      if (before) [one.scrollTop, one.scrollLeft] = [before.top, before.left];
    }
    if (!focused || document.activeElement === focused) return;
    const next = focused.isConnected ? focused
      : [...parent.querySelectorAll(focused.localName)].find((one) => nameElement(one) === focusedName);
    /** @type {HTMLElement | undefined} */ (next)?.focus({ preventScroll: true });
  };
}

/**
 * Return the daemon's rendering of a note as nodes. It escapes all tags of the note itself.
 * @param {string} html
 */
export function parseRendered(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content;
}

/** Return text with its `**marked**` words as `<mark>`. @param {string} text @returns {Child[]} */
export function highlight(text) {
  return text.split("**").map((part, at) => (at % 2 ? h("mark", {}, part) : part));
}

/** Return text with `<mark>` around each word that begins with one of `words`. @param {string} text @param {string[]} words @returns {Child[]} */
export function markWords(text, words) {
  const wanted = words.map((word) => word.toLowerCase());
  return text.split(/([\p{L}\p{N}_]+)/u).map((part, at) => (at % 2 && wanted.some((word) => part.toLowerCase().startsWith(word)) ? h("mark", {}, part) : part));
}

const relative = new Intl.RelativeTimeFormat(undefined, { numeric: "auto" });
/** @type {[Intl.RelativeTimeFormatUnit, number][]} */
const UNITS = [["year", 31536000], ["month", 2592000], ["day", 86400], ["hour", 3600], ["minute", 60]];

/** Return `<time>` for seconds since 1970, as `5 minutes ago`. @param {number} at */
export function when(at) {
  const past = at - Date.now() / 1000;
  const [unit, seconds] = UNITS.find(([, length]) => Math.abs(past) >= length) ?? ["second", 1];
  const moment = new Date(at * 1000);
  const shown = relative.format(Math.round(past / seconds), unit);
  return h("time", { datetime: moment.toISOString(), title: moment.toLocaleString() }, shown);
}

/** @param {number} n */
export function bytes(n) {
  if (n < 1024) return `${n} B`;
  return n < 1048576 ? `${(n / 1024).toFixed(1)} kB` : `${(n / 1048576).toFixed(1)} MB`;
}

/** @param {number} n @param {string} one @param {string} [many] */
export function count(n, one, many = `${one}s`) {
  return `${n.toLocaleString()} ${n === 1 ? one : many}`;
}

/**
 * Make a table.
 * @param {string} caption
 * @param {string[]} heads
 * @param {(Child | Child[])[][]} rows
 */
export function table(caption, heads, rows) {
  const head = h("tr", {}, heads.map((text) => h("th", { scope: "col" }, text)));
  const body = rows.map((cells) => h("tr", {}, cells.map((cell) => h("td", {}, cell))));
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    h("table", {}, h("caption", { class: "hidden" }, caption), h("thead", {}, head),
      h("tbody", {}, body)));
}

/** The path of the note of an anchor or a link; a path stays as it is. @param {string} place */
export function notePath(place) {
  const at = /\.(md|markdown|txt)$/i.test(place) ? -1 : place.lastIndexOf("#");
  return at < 0 ? place : place.slice(0, at);
}

/** What a hit contradicts or supersedes, and what does so to it. @param {any} one @param {(path: string) => string} href */
export function contradictions(one, href) {
  const name = (/** @type {string} */ text, /** @type {string[]} */ anchors) => anchors.length > 0 && [` ${text} `,
    ...anchors.flatMap((anchor, at) => [at ? ", " : "", h("a", { href: href(notePath(anchor)) }, anchor)])];
  const parts = [name("contradicts", one.contradicts ?? []), name("contradicted by", one.contradicted_by ?? []),
    name("supersedes", one.supersedes ?? []), name("superseded by", one.superseded_by ?? [])];
  return parts.some(Boolean) && h("p", { class: "warning" }, parts.flatMap((part) => part || []));
}

/** Small labels of a section's metadata. @param {Record<string, any>} meta */
export function badges(meta) {
  const parts = [
    meta.kind && ["kind", meta.kind], meta.priority && ["priority", meta.priority],
    meta.status && ["status", meta.status], meta.lifecycle && ["lifecycle", meta.lifecycle],
    meta.task && ["task", `task ${meta.task}`], meta.tier && ["tier", meta.tier],
    meta.is_expired && ["status", "expired"],
  ];
  const labels = parts.filter(Boolean).map(([kind, text]) =>
    h("span", { class: `badge ${kind} ${String(text).toLowerCase()}` }, text));
  const tags = (meta.tags ?? []).map((/** @type {string} */ tag) =>
    h("span", { class: "badge tag" }, `#${tag}`));
  return h("span", { class: "badges" }, [...labels, ...tags]);
}
