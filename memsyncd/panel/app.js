// The page: its header, its tabs, its keys, and the view that the address names.

import { count, fill, h, table } from "./dom.js";
import { call, listen } from "./rpc.js";
import { makeHref, parseHref, report } from "./view.js";
import { confirmLoss, remember } from "./write.js";
import { NotesView } from "./notes.js";
import { SearchView } from "./search.js";
import { ContextView } from "./context.js";
import { HistoryView } from "./history.js";
import { TasksView } from "./tasks.js";
import { DecayView } from "./decay.js";
import { GraphView } from "./graph.js";
import { ProblemsView } from "./problems.js";
import { StatusView } from "./status.js";
import { StartView } from "./start.js";
import { TopicsView } from "./topics.js";
import { AgentsView } from "./agents.js";

/** @type {[string, string, string, typeof import("./view.js").View][]} */
const VIEWS = [
  ["notes", "Notes", "n", NotesView],
  ["search", "Search", "s", SearchView],
  ["topics", "Topics", "o", TopicsView],
  ["tasks", "Tasks", "t", TasksView],
  ["graph", "Links", "l", GraphView],
  ["context", "Context", "c", ContextView],
  ["agents", "Agents", "a", AgentsView],
  ["history", "History", "h", HistoryView],
  ["decay", "Worth", "d", DecayView],
  ["problems", "Problems", "p", ProblemsView],
  ["status", "Status", "m", StatusView],
];
/** The first views of the groups of the navigation. */
const GROUPS = ["context", "problems"];
for (const [name, , , type] of VIEWS) customElements.define(`memory-${name}`, type);
// No tab leads to this view; the page shows it while no folder is watched.
customElements.define("memory-start", StartView);
/** Views that need no workspace. */
const GENERAL = ["status", "start"];
const KEYS = [
  ["/", "search"], ["?", "this list of keys"], ...VIEWS.map(([, label, key]) => [`g ${key}`, label]), ["g i", "the first note: MEMORY.md, Home or README"],
  ["j, k", "next or previous link of the view"], ["Enter", "open it"], ["r", "remember"],
  ["e", "edit the section that is shown, or append to the topic"], ["u", "undo the last action, or the change that is shown"],
  ["Ctrl+Enter", "save"], ["Esc", "leave a field, close a dialog"], ["arrows, +, −, 0", "move and scale the picture of links"],
];
/** States of a workspace in words. @type {Record<string, string>} */
const STATES = { ready: "up to date", indexing: "reading notes", degraded: "degraded", missing: "folder missing", stalled: "stalled" };
const POLL_MS = 5000;

const main = /** @type {HTMLElement} */ (document.getElementById("main"));
const tabs = /** @type {HTMLElement} */ (document.getElementById("tabs"));
const picker = /** @type {HTMLSelectElement} */ (document.getElementById("workspace"));
const query = /** @type {HTMLInputElement} */ (document.getElementById("query"));
const find = /** @type {HTMLFormElement} */ (document.getElementById("find"));
const state = /** @type {HTMLAnchorElement} */ (document.getElementById("state"));

/** @type {any[]} */
let workspaces = [];
/** The numbers of problems that the navigation shows. @type {number[]} */
let problems = [];
let isKnown = false;
let isOnline = true;
/** The address of the view that is shown. */
let shownHash = location.hash;
let typing = 0;

/** @returns {import("./view.js").View | null} */
function currentView() {
  return /** @type {import("./view.js").View | null} */ (main.firstElementChild);
}

/** Show the view of the new address, unless the user wants to keep text that is not saved. */
async function leave() {
  const view = currentView(), wanted = location.hash;
  if (view?.hasUnsaved() && wanted !== shownHash) {
    history.replaceState(null, "", shownHash);
    picker.value = view.place.workspace;
    if (!await confirmLoss()) return;
    // The text goes with its editor.
    view.querySelector(".editor")?.remove();
    location.hash = wanted;
    return;
  }
  await navigate();
}

/** Show the view of the address. @param {string} gone A workspace whose removal was reported. */
async function navigate(gone = "") {
  shownHash = location.hash;
  const place = parseHref(location.hash);
  const known = VIEWS.some(([name]) => name === place.view) || place.view === "start";
  if (!known) place.view = "notes";
  if (!isKnown) return;
  if (!workspaces.some((one) => one.id === place.workspace)) {
    const remembered = localStorage.getItem("workspace"), wanted = place.workspace;
    const named = workspaces.find((one) => one.name === wanted);
    const chosen = named ?? workspaces.find((one) => one.id === remembered) ?? workspaces[0];
    place.workspace = chosen?.id ?? "";
    if (wanted && !named && wanted !== gone) report(`There is no workspace ${wanted}.${chosen ? ` This is ${chosen.name}.` : ""}`);
  }
  if (!place.workspace && !GENERAL.includes(place.view)) place.view = "start";
  if (place.workspace) localStorage.setItem("workspace", place.workspace);
  picker.value = place.workspace;
  showTabs(place);
  const name = `memory-${place.view}`;
  let view = currentView();
  if (view?.localName !== name) {
    view = /** @type {import("./view.js").View} */ (document.createElement(name));
    fill(main, view);
  }
  if (document.activeElement !== query) query.value = place.view === "search" ? place.values.q ?? "" : "";
  await view.open(place);
}

/** @param {import("./view.js").Place} place */
function showTabs(place) {
  const shown = workspaces.find((one) => one.id === place.workspace);
  fill(tabs, VIEWS.map(([name, label, key]) =>
    h("a", {
      class: GROUPS.includes(name) ? "group" : null,
      href: makeHref(name, place.workspace),
      "aria-current": name === place.view ? "page" : null,
      "aria-keyshortcuts": `g ${key}`,
      title: `${label} (g ${key})`,
    }, label, name === "problems" && shown?.problems > 0 && h("span", { class: "number", "aria-label": count(shown.problems, "problem") }, shown.problems))));
  const label = VIEWS.find(([name]) => name === place.view)?.[1] ?? "";
  tabs.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  if (tabs.matches(":popover-open")) tabs.hidePopover();
  document.title = [label, shown?.name, "memsyncd"].filter(Boolean).join(" · ");
  state.href = makeHref("status", place.workspace);
}

/** @param {any[]} found */
function showWorkspaces(found) {
  const ids = found.map((one) => one.id).join();
  const isNew = ids !== workspaces.map((one) => one.id).join();
  workspaces = found;
  if (isNew || !isKnown) {
    isKnown = true;
    const chosen = picker.value;
    fill(picker, found.map((one) => h("option", { value: one.id }, one.name)));
    const isThere = found.some((one) => one.id === chosen);
    if (isThere) picker.value = chosen;
    if (chosen && !isThere) report(`The workspace ${chosen} is not watched any more.`);
    const isShown = currentView()?.place.workspace && found.some((one) => one.id === currentView()?.place.workspace);
    if (isShown) showTabs(currentView()?.place ?? parseHref(location.hash));
    else if (!currentView()?.hasUnsaved?.()) void navigate(chosen);
  }
  const current = currentView(), counted = problems.join();
  problems = found.map((one) => one.problems);
  if (current && counted !== problems.join()) showTabs(current.place);
  showState();
}

function showState() {
  const shown = workspaces.find((one) => one.id === picker.value);
  const text = isOnline ? (STATES[shown?.state] ?? shown?.state ?? "no workspace") : "not connected";
  const pending = isOnline && shown?.pending ? `, ${count(shown.pending, "note")} to read` : "";
  state.className = `dot ${isOnline ? shown?.state ?? "" : "offline"}`;
  picker.hidden = !workspaces.length;
  fill(state, h("span", {}, `${text}${pending}`));
}

picker.addEventListener("change", () => {
  const place = parseHref(location.hash);
  location.hash = makeHref(place.view || "notes", picker.value);
  showState();
});

find.addEventListener("submit", (event) => {
  event.preventDefault();
  search();
});
query.addEventListener("input", () => {
  clearTimeout(typing);
  typing = window.setTimeout(search, 120);
});

function search() {
  const place = parseHref(location.hash);
  const values = place.view === "search" ? place.values : {};
  const href = makeHref("search", picker.value, { ...values, q: query.value });
  if (place.view === "search") {
    // A typed letter must not become a step in the browser's history.
    history.replaceState(null, "", href);
    void navigate();
  } else {
    location.hash = href;
  }
}

let isGoing = false;

/** @param {KeyboardEvent} event */
function onKey(event) {
  const target = /** @type {HTMLElement} */ (event.target);
  if (target.closest("dialog")) return;
  const isTyping = /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) || target.isContentEditable;
  if (event.key === "Escape" && isTyping) {
    target.blur();
    return;
  }
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/") {
    event.preventDefault();
    query.focus();
    query.select();
  } else if (event.key === "g" && !isGoing) {
    isGoing = true;
    setTimeout(() => (isGoing = false), 1200);
    return;
  } else if (isGoing) {
    const view = VIEWS.find(([, , key]) => key === event.key);
    if (view) location.hash = makeHref(view[0], picker.value);
    else if (event.key === "i") location.hash = makeHref("notes", picker.value, { first: 1 });
  } else if (event.key === "j" || event.key === "k") {
    step(event.key === "j" ? 1 : -1);
  } else if (event.key === "e") {
    const buttons = [...main.querySelectorAll("button.edit")];
    // The section that is shown, else the first section.
    const line = Number(main.querySelector(".shown")?.getAttribute("data-line") ?? 0);
    press(buttons.findLast((one) => Number(one.closest("[data-line]")?.getAttribute("data-line")) <= line) ?? buttons[0], event);
  } else if (event.key === "u") {
    // The last action, else the change that is shown.
    press([...document.querySelectorAll("#messages button.undo")].at(-1) ?? main.querySelector("button.undo"), event);
  } else if (event.key === "r" && picker.value) {
    event.preventDefault();
    const view = currentView();
    if (view) void remember(view);
  } else if (event.key === "?") {
    showKeys();
  }
  isGoing = false;
}

function showKeys() {
  const rows = KEYS.map(([keys = "", what = ""]) => [h("kbd", {}, keys), what]);
  const dialog = h("dialog", { class: "keys", "aria-labelledby": "keys-title" }, h("form", { method: "dialog" }, h("h2", { id: "keys-title" }, "Keys"),
    table("Keys", ["Key", "What it does"], rows), h("p", { class: "tools" }, h("button", { type: "submit", autofocus: true }, "Close"))));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

/** @param {Element | null | undefined} button @param {KeyboardEvent} event */
function press(button, event) {
  event.preventDefault();
  /** @type {HTMLElement | null | undefined} */ (button)?.click();
}

/** Move the focus among the entries of a view. @param {number} by */
function step(by) {
  const entries = [...main.querySelectorAll("a.entry, .entry > a")].filter((one) => one.checkVisibility());
  if (!entries.length) return;
  const at = entries.indexOf(/** @type {Element} */ (document.activeElement));
  const next = Math.max(0, Math.min(entries.length - 1, at + by));
  const entry = /** @type {HTMLElement} */ (entries[at < 0 ? 0 : next]);
  entry.focus();
  entry.scrollIntoView({ block: "nearest" });
}

document.addEventListener("keydown", onKey);
window.addEventListener("hashchange", () => void leave());
window.addEventListener("beforeunload", (event) => {
  if (currentView()?.hasUnsaved?.()) event.preventDefault();
});
window.addEventListener("unhandledrejection", (event) => report(event.reason));

listen({
  changed(changed) {
    const view = currentView();
    if (view && view.place.workspace === changed.workspace) view.changed(changed);
  },
  status(event) {
    showWorkspaces(event.workspaces);
    const view = currentView();
    if (view?.isPolled && !view.hasAttribute("aria-busy")) void view.reload();
  },
  online(is) {
    const isBack = is && !isOnline;
    isOnline = is;
    showState();
    if (isBack) void currentView()?.reload();
  },
});
// No event tells of these: counters, the log, signals.
setInterval(() => {
  const view = currentView();
  if (!isOnline || document.hidden) return;
  if (!workspaces.length) refresh();
  if (view?.isPolled && !view.hasAttribute("aria-busy")) void view.reload();
}, POLL_MS);
// A new workspace without notes changes no index, so the stream tells of it seconds later.
const refresh = () => void call("status").then((found) => showWorkspaces(found.workspaces)).catch(report);
window.addEventListener("focus", refresh);
document.addEventListener("workspaces", refresh);
refresh();
