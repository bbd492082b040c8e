// What changes notes: edit a section, remember, archive, promote, undo. Each is a method that agents
// use, too, and each answer offers to undo it.

import { fill, h } from "./dom.js";
import { RpcError } from "./rpc.js";
import { report } from "./view.js";

/** @typedef {import("./view.js").View} View */

const CLIENT = "panel";
const TAGS = ["decision", "convention", "pattern", "pitfall", "interface", "invariant", "faq"];

/** Return the path by which the memory tool names a note. @param {View} view @param {string} path */
async function findMemoryPath(view, path) {
  const found = await view.ask("workspace.list", { workspace: undefined });
  const workspace = found.workspaces.find((/** @type {any} */ one) => one.id === view.place.workspace);
  const folder = workspace?.memory_dir ?? ".memories";
  if (folder === ".memories" && path === "MEMORY.md") return "/memories/MEMORY.md";
  if (!folder || folder === ".") return `/memories/${path}`;
  if (path.startsWith(`${folder}/`)) return `/memories/${path.slice(folder.length + 1)}`;
  throw new RpcError(`${path} is not in the memory folder, so the panel only reads it`, { hint: "change it with your editor" });
}

/**
 * Show an editor in place of a section until it is saved or given up.
 * @param {View} view @param {string} anchor @param {Element} heading
 * @returns {Promise<void>}
 */
export async function editSection(view, anchor, heading) {
  const read = await view.ask("get", { anchor, track_access: false });
  const path = await findMemoryPath(view, read.path);
  const area = h("textarea", { rows: Math.min(30, read.text.split("\n").length + 2), "aria-label": `Text of ${anchor}`, spellcheck: "false" });
  area.value = read.text;
  const problem = h("div", { role: "alert" });
  const save = h("button", { type: "submit" }, "Save (Ctrl+Enter)");
  const stop = h("button", { type: "button" }, "Cancel");
  const form = h("form", { class: "editor" }, area, problem, h("p", { class: "tools" }, save, stop));
  const hidden = hideSection(heading, read.end_line);
  heading.before(form);
  area.focus();
  let base = read;
  await new Promise((resolve) => {
    stop.addEventListener("click", () => resolve(null));
    area.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
      if (event.key === "Escape") resolve(null);
    });
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      if (area.value === base.text) return resolve(null);
      try {
        await replaceText(view, path, base, area.value);
        resolve(null);
      } catch (error) {
        const isConflict = error instanceof RpcError && error.code === "conflict";
        if (isConflict) base = await showConflict(view, anchor, base, area, problem);
        else fill(problem, h("p", { class: "error" }, describe(error)));
      }
    });
  });
  form.remove();
  for (const element of hidden) element.removeAttribute("hidden");
}

/** @param {View} view @param {string} path @param {any} base @param {string} text */
async function replaceText(view, path, base, text) {
  const done = await view.ask("memory", {
    command: "str_replace", path, old_str: base.text, new_str: text, if_digest: base.digest, client: CLIENT,
  });
  offerUndo(view, "saved", done.change_set);
}

/**
 * Show what another writer made of the section beside the text that was not saved.
 * @param {View} view @param {string} anchor @param {any} base @param {HTMLTextAreaElement} area @param {HTMLElement} problem
 */
async function showConflict(view, anchor, base, area, problem) {
  let now;
  try {
    now = await view.ask("get", { anchor, track_access: false });
  } catch (error) {
    fill(problem, h("p", { class: "error" }, `The section was changed and is not found any more: ${describe(error)}. Copy your text before you close it.`));
    return base;
  }
  const take = h("button", { type: "button", onclick: () => { area.value = now.text; fill(problem); } }, "Take theirs");
  fill(problem, h("p", { class: "error" }, "Another writer changed this note meanwhile. Yours is above, theirs is here; saving again replaces theirs."),
    h("pre", { tabindex: 0, "aria-label": "Their text" }, now.text), take);
  return now;
}

/** @param {Element} heading @param {number} lastLine */
function hideSection(heading, lastLine) {
  const hidden = [];
  for (let at = /** @type {Element | null} */ (heading); at; at = at.nextElementSibling) {
    if (at !== heading && Number(at.getAttribute("data-line") ?? Infinity) > lastLine) break;
    at.setAttribute("hidden", "");
    hidden.push(at);
  }
  return hidden;
}

/** @param {unknown} error */
function describe(error) {
  if (error instanceof RpcError) return error.hint ? `${error.message} → ${error.hint}` : error.message;
  return String(error);
}

/** Offer to undo what was just done. @param {View} view @param {string} what @param {number | null} changeSet */
export function offerUndo(view, what, changeSet) {
  report(what);
  if (changeSet === null || changeSet === undefined) return;
  const line = document.querySelector("#messages p:last-child");
  const undo = h("button", { type: "button" }, "undo");
  undo.addEventListener("click", () => {
    line?.remove();
    view.ask("undo", { change_set: changeSet, client: CLIENT }).then(() => report("undone")).catch(report);
  });
  line?.insertBefore(undo, line.lastChild);
}

/** Ask in a dialog; null if it is given up. @param {string} title @param {(HTMLElement | null)[]} fields @param {string} label */
function ask(title, fields, label) {
  const id = "dialog-title";
  const form = h("form", { method: "dialog" }, h("h2", { id }, title), ...fields, h("p", { class: "tools" },
    h("button", { type: "submit", value: "yes" }, label), h("button", { type: "submit", value: "", formnovalidate: true }, "Cancel")));
  const dialog = h("dialog", { "aria-labelledby": id }, form);
  document.body.append(dialog);
  dialog.showModal();
  return new Promise((resolve) => dialog.addEventListener("close", () => {
    resolve(dialog.returnValue === "yes" ? new FormData(form) : null);
    dialog.remove();
  }));
}

/** @param {string} label @param {HTMLElement} field */
function labelled(label, field) {
  return h("label", {}, label, field);
}

/** Write a new memory. @param {View} view */
export async function remember(view) {
  const data = await ask("Remember", [
    labelled("Text", h("textarea", { name: "content", rows: 6, required: true })),
    labelled("Heading", h("input", { name: "summary", maxlength: 200, placeholder: "by default the beginning of the text" })),
    labelled("Kind", h("input", { name: "kind", maxlength: 60, placeholder: "decision, error, preference, …" })),
    labelled("Tags", h("input", { name: "tags", placeholder: "separated by commas" })),
  ], "Remember");
  if (!data) return;
  const tags = String(data.get("tags")).split(",").map((tag) => tag.trim()).filter(Boolean);
  try {
    const added = await view.ask("note.add", {
      content: data.get("content"), summary: data.get("summary") ?? "", kind: data.get("kind") || null, tags, client: CLIENT,
    });
    report(`remembered in ${added.path}`);
    location.hash = view.noteHref(added.path, added.start_line);
  } catch (error) {
    report(error);
  }
}

/** Archive a section, after its plan was shown. @param {View} view @param {string} anchor */
export async function archive(view, anchor) {
  try {
    const plan = await view.ask("archive", { anchors: [anchor], dry_run: true, client: CLIENT });
    const skipped = plan.skipped.map((/** @type {any} */ one) => h("li", {}, `${one.anchor}: ${one.reason}`));
    if (!plan.archived.length) {
      report(new RpcError(`nothing to archive: ${plan.skipped[0]?.reason ?? "it is archived"}`, {}));
      return;
    }
    const items = plan.archived.map((/** @type {any} */ one) => h("li", {}, one.anchor));
    const data = await ask("Archive: searches leave it out then", [h("ul", {}, items), skipped.length ? h("ul", { class: "quiet" }, skipped) : null], "Archive");
    if (!data) return;
    const done = await view.ask("archive", { anchors: [anchor], dry_run: false, plan: plan.plan, client: CLIENT });
    offerUndo(view, "archived", done.change_set);
  } catch (error) {
    report(error);
  }
}

/** Promote a section to the project's note. @param {View} view @param {string} anchor */
export async function promote(view, anchor) {
  const choice = h("select", { name: "tag" }, TAGS.map((tag) => h("option", {}, tag)));
  const data = await ask("Promote to lasting knowledge of the project", [labelled("As", choice)], "Promote");
  if (!data) return;
  try {
    const done = await view.ask("promote", { anchor, tag: data.get("tag"), client: CLIENT });
    offerUndo(view, done.promoted[0]?.is_new ? `promoted to ${done.promoted[0].path}` : "it was promoted before", done.change_set);
  } catch (error) {
    report(error);
  }
}
