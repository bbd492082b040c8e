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
  for (const item of template.content.querySelectorAll("li")) showBox(item);
  return template.content;
}

/** Show `[ ]` and `[x]` of a list's item as boxes. @param {HTMLElement} item */
function showBox(item) {
  const walker = document.createTreeWalker(item, NodeFilter.SHOW_TEXT);
  const text = walker.nextNode(), box = /^\s*\[([ xX])\] /.exec(text?.nodeValue ?? "");
  if (!text || !box) return;
  item.classList.add("task");
  text.nodeValue = `${box[1] === " " ? "☐" : "☑"} ${(text.nodeValue ?? "").slice(box[0].length)}`;
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
 * Make a table. On a phone each row is a card, whose cells name their heads.
 * @param {string} caption
 * @param {string[]} heads
 * @param {(Child | Child[])[][]} rows
 */
export function table(caption, heads, rows) {
  const head = h("tr", {}, heads.map((text) => h("th", { scope: "col" }, text)));
  const body = rows.map((cells) => h("tr", {}, cells.map((cell, at) => h("td", { "data-head": heads[at] }, cell))));
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    h("table", { class: "rows" }, h("caption", { class: "hidden" }, caption), h("thead", {}, head),
      h("tbody", {}, body)));
}

/** A view without entries: a title, and how the first entry is made. @param {string} title @param {...(Child | Child[])} children */
export function empty(title, ...children) {
  return h("section", { class: "empty" }, h("h2", {}, title), ...children);
}

/** A switch, which is on or off. @param {string} label @param {boolean} isOn @param {(isOn: boolean) => void} change */
export function makeSwitch(label, isOn, change) {
  const input = h("input", { type: "checkbox", role: "switch", checked: isOn, "aria-label": label, onchange: () => change(input.checked) });
  return h("label", { class: "switch" }, input, label);
}

/**
 * A choice of one of several, each a link.
 * @param {string} label @param {{label: string, href: string, isChosen: boolean}[]} options
 */
export function makeChoice(label, options) {
  return h("nav", { class: "choice", "aria-label": label }, options.map((option) =>
    h("a", { href: option.href, "aria-current": option.isChosen ? "true" : null }, option.label)));
}

/** A button that copies a text. @param {string} label @param {string | (() => string)} text */
export function copyButton(label, text) {
  const button = h("button", { type: "button", class: "plain" }, label);
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(typeof text === "string" ? text : text());
      button.textContent = "Copied";
    } catch {
      button.textContent = "The browser does not allow it";
    }
    setTimeout(() => (button.textContent = label), 1500);
  });
  return button;
}

/** What a view is for, in one sentence. @param {string} text */
export function lead(text) {
  return h("p", { class: "lead quiet" }, text);
}

/** A command of the terminal, with a button that copies it. @param {string} text */
export function command(text) {
  return h("span", { class: "command" }, h("code", {}, text), " ", copyButton("Copy", text));
}

/** A word for the command line. @param {string} text */
export function quote(text) {
  return /^[\w./@:+-]+$/.test(text) ? text : `'${text.replace(/'/g, "'\\''")}'`;
}

const COMMAND = /memsyncd (?:'[^']*' ?|[^\s;,…']+ ?)+/g;

/** A text with each command in it as code that can be copied. @param {string} text @returns {Child[]} */
export function withCommands(text) {
  /** @type {Child[]} */
  const parts = [];
  let after = 0;
  for (const match of text.matchAll(COMMAND)) {
    const words = match[0].trimEnd();
    parts.push(...withCode(text.slice(after, match.index)), command(words));
    after = match.index + words.length;
  }
  return [...parts, ...withCode(text.slice(after))];
}

/** A text with what stands between backticks as code. @param {string} text @returns {Child[]} */
export function withCode(text) {
  return text.split(/`([^`]+)`/).map((part, at) => (at % 2 ? h("code", {}, part) : part));
}

/** @param {string} text */
export function sentence(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** The name of a note by its path: the name of its file. @param {string} path */
export function nameNote(path) {
  return path.slice(path.lastIndexOf("/") + 1).replace(/\.(md|markdown|txt)$/i, "") || path;
}

/** @param {string} text */
const fold = (text) => text.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "");

/**
 * The names of a section from its note on: `Note › Heading`. A note is named by its title, else by its
 * file, unless its first heading says the same.
 * @param {{title?: string, heading?: string[], path: string}} section
 */
export function listNames({ title, heading = [], path }) {
  const note = title || nameNote(path), first = fold(heading[0] ?? ""), name = fold(note);
  const isSame = first && (!title && /^(MEMORY|README|index)\.md$/i.test(path) || first.startsWith(name) || name.startsWith(first));
  return isSame ? heading : [note, ...heading];
}

/** @param {{title?: string, heading?: string[], path: string}} section */
export function nameSection(section) {
  return listNames(section).join(" › ");
}

/** The names of a section by its anchor. @param {string} anchor @param {string} [title] The title of its note, if it is known. */
export function nameAnchor(anchor, title) {
  const path = notePath(anchor);
  const slug = path === anchor ? "" : anchor.slice(path.length + 1);
  const heading = slug.split("/").filter(Boolean).map((part) => part.replace(/-/g, " "));
  const headings = heading.map((part) => part.charAt(0).toUpperCase() + part.slice(1));
  // The slug of the title has lost its signs.
  if (title && headings[0] && fold(headings[0]) === fold(title)) headings[0] = title;
  return nameSection({ ...(title ? { title } : {}), path, heading: headings });
}

/** A passage of one line without the signs of markdown. @param {string} text */
export function plainText(text) {
  return text.replace(/!?\[\[([^\]|]*\|)?([^\]]*)\]\]/g, "$2").replace(/!?\[([^\]]*)\]\([^)\s]*\)/g, "$1")
    .replace(/\|[\s:|-]*-{3,}[\s:|-]*\|/g, " · ").replace(/\s*\|\s*/g, " · ").replace(/(^|\s)(?:- )?\[([ x])\] /gi, (_, before, mark) => `${before}${mark === " " ? "☐" : "☑"} `)
    .replace(/(^|\s)(?:#{1,6}|>|```\w*|-{3,}) /g, "$1").replace(/(^|\s)[-+] /g, "$1· ").replace(/(^|[\s(])_([^\s_](?:[^_]*[^\s_])?)_(?=[\s).,;:!?]|$)/g, "$1$2").replace(/`/g, "").replace(/^[\s·]+|[\s·]+$/g, "").replace(/(?: · )+/g, " · ");
}

/** The path of the note of an anchor or a link; a path stays as it is. @param {string} place */
export function notePath(place) {
  const at = /\.(md|markdown|txt)$/i.test(place) ? -1 : place.lastIndexOf("#");
  return at < 0 ? place : place.slice(0, at);
}

/** What a hit contradicts or supersedes, and what does so to it. @param {any} one @param {(path: string) => string} href */
export function contradictions(one, href) {
  const name = (/** @type {string} */ text, /** @type {string[]} */ anchors) => anchors.length > 0 && [` ${text} `,
    ...anchors.flatMap((anchor, at) => [at ? ", " : "", h("a", { href: href(notePath(anchor)) }, nameAnchor(anchor))])];
  const parts = [name("contradicts", one.contradicts ?? []), name("contradicted by", one.contradicted_by ?? []),
    name("supersedes", one.supersedes ?? []), name("superseded by", one.superseded_by ?? [])];
  return parts.some(Boolean) && h("p", { class: "warning" }, parts.flatMap((part) => part || []));
}

/** Small labels of a section's metadata. @param {Record<string, any>} meta */
export function badges(meta) {
  const parts = [
    meta.kind && ["kind", meta.kind], meta.priority && ["priority", meta.priority],
    meta.status && ["status", meta.status], meta.lifecycle && ["lifecycle", meta.lifecycle],
    meta.task && ["task", `task ${meta.task}`],
    meta.is_expired && ["status", "expired"],
  ];
  const labels = parts.filter(Boolean).map(([kind, text]) =>
    h("span", { class: `badge ${kind} ${String(text).toLowerCase()}` }, text));
  const tags = (meta.tags ?? []).map((/** @type {string} */ tag) =>
    h("span", { class: "badge tag" }, `#${tag}`));
  return h("span", { class: "badges" }, [...labels, ...tags]);
}
