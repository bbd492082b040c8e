// The actions that change notes: edit a section, remember, archive, promote, undo. Each calls a method
// that agents use, too, and offers to undo it afterwards.

import { fill, h, nameNote, nameSection } from "./dom.js";
import { RpcError } from "./rpc.js";
import { report } from "./view.js";

/** @typedef {import("./view.js").View} View */

const CLIENT = "panel";
/** How long a change can be undone from its message; the history undoes it later, too. */
const UNDO_MS = 30_000;
/** The most memories of a plan that a question names. */
const SHOWN = 10;
const TAGS = ["decision", "convention", "pattern", "pitfall", "interface", "invariant", "faq"];

/** Return the path by which the memory tool names a note. @param {View} view @param {string} path */
async function findMemoryPath(view, path) {
  const found = await view.ask("workspace.list", { workspace: undefined });
  const workspace = found.workspaces.find((/** @type {any} */ one) => one.id === view.place.workspace);
  const named = memoryPath(workspace, path);
  if (named !== null) return named;
  throw new RpcError(`${path} is not in the memory folder, so the panel only reads it`, { hint: "change it with your editor" });
}

/** Return the same path; null if the note is outside of the memory folder. @param {any} workspace @param {string} path */
export function memoryPath(workspace, path) {
  const folder = workspace?.memory_dir ?? ".memories";
  if (folder === ".memories" && path === "MEMORY.md") return "/memories/MEMORY.md";
  if (!folder || folder === ".") return `/memories/${path}`;
  return path.startsWith(`${folder}/`) ? `/memories/${path.slice(folder.length + 1)}` : null;
}

/** @typedef {{form: HTMLElement, isChanged: () => boolean, ended: Promise<unknown>}} Editor */

/**
 * Show an editor in place of a section until the user saves or cancels.
 * @param {View} view @param {string} anchor @param {Element} heading
 * @returns {Promise<Editor>}
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
  const isChanged = () => area.value !== base.text;
  const ended = new Promise((resolve) => {
    const end = async () => {
      if (!isChanged() || await confirmLoss()) resolve(null);
    };
    stop.addEventListener("click", end);
    area.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
      if (event.key !== "Escape") return;
      // Otherwise the key that opens the dialog would close it, too.
      event.preventDefault();
      event.stopPropagation();
      void end();
    });
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      if (!isChanged()) return resolve(null);
      save.disabled = true;
      try {
        await replaceText(view, path, base, area.value);
        resolve(null);
      } catch (error) {
        const isConflict = error instanceof RpcError && error.code === "conflict";
        if (isConflict) base = await showConflict(view, anchor, base, area, problem);
        else fill(problem, h("p", { class: "error" }, describe(error)));
      } finally {
        save.disabled = false;
      }
    });
  });
  void ended.then(() => {
    form.remove();
    for (const element of hidden) element.removeAttribute("hidden");
  });
  return { form, isChanged, ended };
}

/** Ask whether text that is not saved may be lost. @returns {Promise<boolean>} */
export async function confirmLoss() {
  return Boolean(await ask("The text was not saved", [h("p", {}, "Leave the editor and lose your text?")], "Discard the text", "Keep editing"));
}

/** @param {View} view @param {string} path @param {any} base @param {string} text */
async function replaceText(view, path, base, text) {
  const done = await view.ask("memory", {
    command: "str_replace", path, old_str: base.text, new_str: text, if_digest: base.digest, client: CLIENT,
  });
  offerUndo(view, "saved", done.change_set);
}

/**
 * Show the section as another writer left it, beside the text that was not saved.
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

/** Offer to undo the last action. @param {View} view @param {string} what @param {number | null} changeSet */
export function offerUndo(view, what, changeSet) {
  const isUndoable = changeSet !== null && changeSet !== undefined;
  const line = report(what, isUndoable ? UNDO_MS : undefined);
  if (!isUndoable) return;
  // When the user clicks, the view may show another workspace.
  const { workspace } = view.place;
  const undo = h("button", { type: "button", class: "undo", "aria-keyshortcuts": "u" }, "undo");
  undo.addEventListener("click", () => {
    line?.remove();
    undoChange(view, { workspace, change_set: changeSet }).then((done) => done && report("undone")).catch(report);
  });
  line?.insertBefore(undo, line.lastChild);
}

/**
 * Undo. If that deletes a file that another program made, ask first; null if the answer is no.
 * @param {View} view @param {Record<string, unknown>} what @returns {Promise<any>}
 */
export async function undoChange(view, what) {
  try {
    return await view.ask("undo", { ...what, client: CLIENT });
  } catch (error) {
    if (!(error instanceof RpcError) || error.code !== "confirmation_needed") throw error;
    let done = null;
    const reason = error.message.charAt(0).toUpperCase() + error.message.slice(1);
    await ask("Undo this change?", [h("p", {}, `${reason}. The undo can itself be undone.`)], "Undo it all the same", "Cancel",
      async () => { done = await view.ask("undo", { ...what, confirm: true, client: CLIENT }); }, "no");
    return done;
  }
}

/**
 * Ask in a dialog; null if the user cancels. With `act` the dialog stays until `act` succeeds, and
 * shows its error.
 * @param {string} title @param {(HTMLElement | null)[]} fields @param {string} label @param {string} [cancel]
 * @param {(data: FormData) => Promise<void>} [act] @param {"yes" | "no"} [enter] The answer that the key Enter gives at first.
 * @returns {Promise<FormData | null>}
 */
export function ask(title, fields, label, cancel = "Cancel", act, enter = "yes") {
  const id = "dialog-title";
  const problem = h("div", { role: "alert" });
  const yes = h("button", { type: "submit" }, label);
  const no = h("button", { type: "button", autofocus: enter === "no" }, cancel);
  const form = h("form", {}, h("h2", { id }, title), ...fields, problem, h("p", { class: "tools" }, yes, no));
  const dialog = h("dialog", { "aria-labelledby": id }, form);
  no.addEventListener("click", () => dialog.close());
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !yes.disabled) form.requestSubmit();
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    yes.disabled = true;
    try {
      await act?.(new FormData(form));
      dialog.close("yes");
    } catch (error) {
      fill(problem, h("p", { class: "error" }, describe(error)));
    }
    yes.disabled = false;
  });
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

/** Text that was typed into the dialog and not saved; it is there when the dialog opens again. */
let draft = "";

/** Write a new memory. @param {View} view @param {{task?: string}} [wanted] A name of a task asks for the task, too. */
export async function remember(view, wanted = {}) {
  const content = h("textarea", { name: "content", rows: 6, required: true });
  content.value = draft;
  content.addEventListener("input", () => (draft = content.value));
  await ask("Remember", [
    labelled("Text", content),
    labelled("Heading", h("input", { name: "summary", maxlength: 200, placeholder: "by default the beginning of the text" })),
    labelled("Kind", h("input", { name: "kind", maxlength: 60, placeholder: "decision, error, preference, …" })),
    labelled("Tags", h("input", { name: "tags", placeholder: "separated by commas" })),
    wanted.task === undefined ? null : labelled("Task", h("input", { name: "task", maxlength: 60, value: wanted.task, placeholder: "HB-12" })),
  ], "Remember", "Cancel", async (data) => {
    const task = data.get("task");
    const added = await view.ask("note.add", {
      content: data.get("content"), summary: data.get("summary") ?? "", kind: data.get("kind") || null, tags: splitTags(data), ...(task ? { task } : {}), client: CLIENT,
    });
    draft = "";
    offerUndo(view, `remembered in ${added.path}`, added.change_set);
    if (wanted.task === undefined) location.hash = view.noteHref(added.path, added.start_line);
  });
}

/**
 * Archive a section or a whole topic, after its plan was shown.
 * @param {View} view @param {string} name An anchor, or the path of a topic. @param {"section" | "topic"} [what]
 */
export async function archive(view, name, what = "section") {
  await carryOutPlan(view, what === "topic" ? "topic.archive" : "archive", what === "topic" ? { topics: [name] } : { anchors: [name] },
    "archived", "Archive? Searches leave it out then", "Archive");
}

/** Archive the memories with the lowest worth, after their plan was shown. @param {View} view */
export async function archiveLow(view) {
  await carryOutPlan(view, "archive", {}, "archived", "Archive what has little worth? Searches leave it out then", "Archive");
}

/** Archive the memories whose time is over, after their plan was shown. @param {View} view */
export async function cleanUp(view) {
  await carryOutPlan(view, "cleanup", {}, "archived", "Archive what is past its time? Searches leave it out then", "Archive");
}

/** Set a section's status to done. @param {View} view @param {string} anchor */
export async function finish(view, anchor) {
  try {
    const done = await view.ask("memory.done", { anchors: [anchor], client: CLIENT });
    offerUndo(view, "done", done.change_set);
    await view.reload();
  } catch (error) {
    report(error);
  }
}

/**
 * Lead a link that dangles to the note with the most similar name, after a question.
 * @param {View} view @param {string} path @param {number} line @param {any} link
 */
export async function correctLink(view, path, line, link) {
  try {
    const read = await view.ask("get", { path, start_line: line, end_line: line, track_access: false });
    const section = read.anchor ? await view.ask("get", { anchor: read.anchor, track_access: false }) : await view.ask("get", { path, track_access: false });
    const text = read.text.replace(`[[${link.target}`, () => `[[${nameNote(link.similar)}`);
    if (text === read.text) throw new RpcError("the link is not written as [[name]]", { hint: "change it in the note" });
    const memory = await findMemoryPath(view, path);
    await ask("Correct this link?", [h("p", {}, `Line ${line} of ${path} becomes:`), h("pre", {}, text)], "Correct it", "Cancel", async () => {
      const lines = section.text.split("\n");
      lines[line - section.start_line] = text;
      await replaceText(view, memory, section, lines.join("\n"));
    });
    await view.reload();
  } catch (error) {
    report(error);
  }
}

/** Write a note to which a link leads. @param {View} view @param {string} name */
export async function writeNote(view, name) {
  const content = h("textarea", { name: "content", rows: 6, required: true });
  content.value = `# ${name}\n\n`;
  const data = await ask("Write this note", [labelled("Text", content)], "Write", "Cancel", async (filled) => {
    const done = await view.ask("memory", { command: "create", path: `/memories/${name}.md`, file_text: filled.get("content"), if_digest: "", client: CLIENT });
    offerUndo(view, `wrote ${name}`, done.change_set);
  });
  if (data) await view.reload();
}

/** Restore an archived topic. @param {View} view @param {string} path */
export async function restore(view, path) {
  await carryOutPlan(view, "topic.restore", { topics: [path] }, "restored", "Restore? Searches find it again", "Restore");
}

/**
 * Ask for a plan, show it, and carry out exactly this plan.
 * @param {View} view @param {string} method @param {Record<string, unknown>} chosen @param {"archived" | "restored"} done @param {string} title @param {string} label
 */
async function carryOutPlan(view, method, chosen, done, title, label) {
  try {
    const plan = await view.ask(method, { ...chosen, apply: false, client: CLIENT });
    const skipped = plan.skipped.slice(0, SHOWN).map((/** @type {any} */ one) => h("li", {}, `${nameSection(one)}: ${one.reason}`));
    if (!plan[done].length) {
      report(new RpcError(`nothing is to be ${done}: ${plan.skipped[0]?.reason ?? "it is so already"}`, {}));
      return;
    }
    const items = plan[done].slice(0, SHOWN).map((/** @type {any} */ one) => h("li", {}, nameSection(one))), left = plan[`n_${done}`] - items.length;
    const data = await ask(title, [h("ul", {}, items, left > 0 && h("li", {}, `and ${left.toLocaleString()} more`)), skipped.length ? h("p", { class: "quiet" }, `${plan.n_skipped.toLocaleString()} stay:`) : null, skipped.length ? h("ul", { class: "quiet" }, skipped) : null], label);
    if (!data) return;
    const carriedOut = await view.ask(method, { ...chosen, apply: true, plan: plan.plan, client: CLIENT });
    offerUndo(view, done, carriedOut.change_set);
    await view.reload();
  } catch (error) {
    report(error);
  }
}

/** Make a topic. @param {View} view */
export async function createTopic(view) {
  await ask("New topic", [
    labelled("Title", h("input", { name: "title", maxlength: 200, required: true })),
    labelled("Summary", h("textarea", { name: "summary", rows: 4 })),
    labelled("Kind", h("input", { name: "kind", maxlength: 60, placeholder: "decision, error, preference, …" })),
    labelled("Tags", h("input", { name: "tags", placeholder: "separated by commas" })),
  ], "Create", "Cancel", async (data) => {
    const written = await view.ask("topic.create", {
      title: data.get("title"), summary: data.get("summary") ?? "", kind: data.get("kind") || null, tags: splitTags(data), client: CLIENT,
    });
    offerUndo(view, `made ${written.path}`, written.change_set);
    location.hash = view.href("topics", { topic: written.path });
  });
}

/** Append a value to a field of a topic. @param {View} view @param {any} topic */
export async function appendValue(view, topic) {
  const names = topic.fields.map((/** @type {any} */ one) => h("option", { value: one.name }));
  await ask(`Append to ${topic.title || topic.path}`, [
    labelled("Field", h("input", { name: "field", required: true, list: "field-names", autocomplete: "off", placeholder: "a new name makes a new field" })),
    h("datalist", { id: "field-names" }, names),
    labelled("Value", h("textarea", { name: "content", rows: 4, required: true })),
  ], "Append", "Cancel", async (data) => {
    const written = await view.ask("field.append", { topic: topic.path, field: data.get("field"), content: data.get("content"), client: CLIENT });
    offerUndo(view, `appended in ${written.path}`, written.change_set);
    await view.reload();
  });
}

/** @param {FormData} data */
function splitTags(data) {
  return String(data.get("tags")).split(",").map((tag) => tag.trim()).filter(Boolean);
}

/** Promote a section to the project's note. @param {View} view @param {string} anchor */
export async function promote(view, anchor) {
  const choice = h("select", { name: "tag" }, TAGS.map((tag) => h("option", {}, tag)));
  const data = await ask("Promote to lasting knowledge of the project", [labelled("As", choice)], "Promote");
  if (!data) return;
  try {
    const done = await view.ask("promote", { apply: true, anchor, tag: data.get("tag"), client: CLIENT });
    offerUndo(view, done.promoted[0]?.is_new ? `promoted to ${done.promoted[0].path}` : "it was promoted before", done.change_set);
  } catch (error) {
    report(error);
  }
}
