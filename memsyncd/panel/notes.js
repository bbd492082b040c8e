// The notes as a tree, and one note: rendered, with its sections, metadata, links and problems.

import { badges, bytes, count, fill, h, notePath, parseRendered, table, when } from "./dom.js";
import { RpcError } from "./rpc.js";
import { report, View } from "./view.js";
import { editSection, memoryPath, remember, archive, promote } from "./write.js";

const TREE_STEP = 400;
const TREE_TAGS = 3;
const ORDER = new Intl.Collator(undefined, { numeric: true });
/** The shortest time between two updates of the tree of a large vault. */
const LIST_PAUSE_MS = 2000;

export class NotesView extends View {
  constructor() {
    super();
    this.tree = h("nav", { class: "tree", "aria-label": "Notes" });
    this.article = h("article", { class: "note", tabindex: -1 });
    this.wanted = h("input", { type: "search", placeholder: "Filter by name, kind or #tag", "aria-label": "Filter the notes", oninput: () => this.showTree() });
    /** @type {any[]} */
    this.notes = [];
    this.shownPath = "";
    this.shownLine = "";
    /** @type {any} */
    this.workspace = null;
    this.listedWorkspace = "";
    this.listingTimer = 0;
    /** @type {import("./write.js").Editor | null} */
    this.editor = null;
    /** True while the text of a section is read for the editor. */
    this.isOpening = false;
    /** Folders that were opened or closed. @type {Map<string, boolean>} */
    this.folders = new Map();
  }

  get isEditing() {
    return this.isOpening || Boolean(this.editor?.form.isConnected);
  }

  hasUnsaved() {
    return Boolean(this.isEditing && this.editor?.isChanged());
  }

  /** @param {import("./view.js").Place} place */
  async open(place) {
    this.editor?.form.remove();
    await super.open(place);
  }

  async reload() {
    // The editor is inside the note. When it closes, the note is read again.
    if (!this.isEditing) await super.reload();
  }

  connectedCallback() {
    if (this.firstChild) return;
    const add = h("button", { type: "button", onclick: () => remember(this) }, "Remember…");
    fill(this, h("aside", { class: "side" }, h("div", { class: "tools" }, this.wanted, add), this.tree),
      this.article);
  }

  /** @param {AbortSignal} signal */
  async read(signal) {
    let listing = Promise.resolve();
    if (this.listedWorkspace !== this.place.workspace) {
      this.shownPath = "";
      fill(this.tree);
      const known = await this.ask("workspace.list", { workspace: undefined }, signal);
      this.workspace = known.workspaces.find((/** @type {any} */ one) => one.id === this.place.workspace);
      listing = this.list(signal);
    }
    // The note in the address is shown before the list of a large vault has arrived.
    const note = this.place.values.path ? this.showNote(this.place.values.path, signal) : null;
    await Promise.all([listing, note]);
    if (note) return;
    const path = this.firstPath();
    if (!path) {
      fill(this.article, h("p", {}, "This workspace has no notes yet. Write the first one with "
        + "“Remember…”, or with any editor."));
      return;
    }
    await this.showNote(path, signal);
  }

  /** @param {AbortSignal} [signal] */
  async list(signal) {
    this.notes = await this.listNotes({ sections: false }, signal);
    this.listedWorkspace = this.place.workspace;
    this.showTree();
  }

  firstPath() {
    const first = this.notes.find((note) => note.path === "MEMORY.md") ?? this.notes[0];
    return first?.path;
  }

  /** @param {{paths: string[], workspace: string, listing: boolean}} changed */
  changed(changed) {
    if (changed.listing && !this.listingTimer) {
      this.listingTimer = window.setTimeout(() => {
        this.listingTimer = 0;
        // The first note of a workspace is shown at once.
        this.list().then(() => (this.shownPath ? undefined : this.reload())).catch(report);
      }, this.notes.length > TREE_STEP ? LIST_PAUSE_MS : 0);
    }
    // While an editor is open the note does not change; the check at saving notices changes of others.
    if (!this.isEditing && (!this.shownPath || changed.paths.includes(this.shownPath))) {
      void this.reload();
    }
  }

  // --- the tree

  showTree() {
    const words = this.wanted.value.toLowerCase().split(/\s+/).filter(Boolean);
    const chosen = this.notes.filter((note) => {
      const tags = note.tags.map((/** @type {string} */ tag) => `#${tag}`).join(" ");
      const text = `${note.path} ${note.title} ${note.kind ?? ""} ${tags}`.toLowerCase();
      return words.every((word) => text.includes(word));
    });
    const what = words.length ? `${chosen.length} of ${this.notes.length}` : count(this.notes.length, "note");
    const index = chosen.find((note) => note.path === "MEMORY.md");
    fill(this.tree, h("p", { class: "quiet", role: "status" }, what), index && h("ul", {}, this.makeFile(index)),
      this.makeFolder("", chosen.filter((note) => note !== index).sort((one, other) => ORDER.compare(one.path, other.path)), words.length > 0));
    this.markCurrent(this.shownPath);
  }

  /**
   * Make the list of a folder. Folders within are filled when they are opened.
   * @param {string} prefix @param {any[]} notes @param {boolean} isOpen
   * @returns {HTMLElement}
   */
  makeFolder(prefix, notes, isOpen) {
    /** @type {Map<string, any[]>} */
    const folders = new Map();
    const files = [];
    for (const note of notes) {
      const rest = note.path.slice(prefix.length);
      const cut = rest.indexOf("/");
      if (cut < 0) files.push(note);
      else folders.set(rest.slice(0, cut), [...(folders.get(rest.slice(0, cut)) ?? []), note]);
    }
    const list = h("ul");
    for (const [name, inside] of folders) {
      const inner = `${prefix}${name}/`;
      const wasOpen = this.folders.get(inner);
      const details = h("details", { "data-folder": inner, open: isOpen || (wasOpen ?? (folders.size + files.length < 6 || (this.place.values.path ?? "").startsWith(inner))) },
        h("summary", {}, name, h("span", { class: "quiet" }, ` ${inside.length}`)));
      const show = () => {
        if (details.open && details.children.length === 1) details.append(this.makeFolder(inner, inside, isOpen));
      };
      details.addEventListener("toggle", () => {
        if (!isOpen) this.folders.set(inner, details.open);
        show();
      });
      show();
      list.append(h("li", {}, details));
    }
    this.addFiles(list, files, 0);
    return list;
  }

  /** @param {HTMLElement} list @param {any[]} files @param {number} from */
  addFiles(list, files, from) {
    list.append(...files.slice(from, from + TREE_STEP).map((note) => this.makeFile(note)));
    if (files.length <= from + TREE_STEP) return;
    const more = h("button", { type: "button" }, `${files.length - from - TREE_STEP} more`);
    const item = h("li", {}, more);
    more.addEventListener("click", () => {
      item.remove();
      this.addFiles(list, files, from + TREE_STEP);
    });
    list.append(item);
  }

  /** @param {any} note */
  makeFile(note) {
    const name = note.path.slice(note.path.lastIndexOf("/") + 1);
    return h("li", {}, h("a", { class: "entry", href: this.noteHref(note.path), "data-path": note.path, title: note.title }, name), " ",
      badges({ kind: note.kind, tags: note.tags.slice(0, TREE_TAGS) }));
  }

  /** @param {string} path */
  markCurrent(path) {
    for (const link of this.tree.querySelectorAll("a")) {
      if (link.dataset.path === path) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  }

  // --- a note

  /** @param {string} path @param {AbortSignal} signal */
  async showNote(path, signal) {
    const line = this.place.values.line ?? "";
    // The text is shown even if a busy daemon does not answer one of the other calls.
    const instead = (/** @type {any} */ empty) => (/** @type {unknown} */ error) => {
      if (!signal.aborted) report(error);
      return empty;
    };
    const [rendered, listed, linked, problems] = await Promise.all([
      this.ask("render", { path, line: Math.max(1, Number(line) || 1) }, signal),
      this.ask("list", { path }, signal).catch(instead({ notes: [] })),
      this.ask("links", { path, limit: 200 }, signal).catch(() => ({ links: [], n_links: 0 })),
      this.ask("problems", {}, signal).catch(instead({ problems: [] })),
    ]);
    signal.throwIfAborted();
    const note = listed.notes.find((/** @type {any} */ one) => one.path === path);
    const isSame = this.shownPath === path && this.shownLine === line;
    const scroll = this.article.scrollTop;
    const body = h("div", { class: "rendered" });
    body.append(parseRendered(rendered.html));
    this.shownPath = path;
    this.shownLine = line;
    this.resolveLinks(body, path, linked.links);
    const sections = (note?.sections ?? []).filter((/** @type {any} */ one) => one.start_line >= rendered.start_line && one.start_line <= rendered.end_line);
    this.addSectionTools(body, sections, path);
    fill(this.article, this.makeHead(path, rendered, note), this.makePager(path, rendered), body, this.makePager(path, rendered),
      this.makeProblems(path, problems.problems), this.makeSections(note, sections), this.makeLinks(path, linked));
    if (isSame) this.article.scrollTop = scroll;
    this.showLine(Number(line), isSame);
    this.markCurrent(path);
    if (!isSame && document.activeElement === document.body) this.article.focus({ preventScroll: true });
  }

  /** @param {string} path @param {any} rendered @param {any} note */
  makeHead(path, rendered, note) {
    const facts = note ? [count(rendered.n_lines, "line"), " · ", bytes(note.size_bytes), " · saved ", when(note.modified_at)] : [];
    return h("header", {}, h("h2", {}, note?.title ?? path), h("p", { class: "quiet" }, h("code", {}, path), " · ", facts),
      h("p", {}, note && badges(note), " ", h("a", { href: this.href("history", { path }) }, "history"), " ",
        h("a", { href: this.href("graph", { path }) }, "links")));
  }

  /** Links to the other parts of a long note. @param {string} path @param {any} rendered */
  makePager(path, rendered) {
    const { start_line: first, end_line: last, n_lines: all } = rendered;
    if (first === 1 && last >= all) return null;
    return h("p", { class: "tools" }, `Lines ${first.toLocaleString()}–${last.toLocaleString()} of ${all.toLocaleString()}`,
      first > 1 && h("a", { class: "chip", href: this.noteHref(path, 1) }, "first"),
      first > 1 && h("a", { class: "chip", href: this.noteHref(path, first - 1) }, "before"),
      last < all && h("a", { class: "chip", href: this.noteHref(path, last + 1) }, "further"),
      last < all && h("a", { class: "chip", href: this.noteHref(path, all) }, "last"));
  }

  /**
   * Lead links to other notes to their place in the panel, as the daemon has resolved them.
   * @param {HTMLElement} body @param {string} path @param {any[]} links
   */
  resolveLinks(body, path, links) {
    const known = new Map(links.filter((one) => notePath(one.source) === path)
      .map((one) => [decodeURIComponentSafely(one.target + (one.heading ? `#${one.heading}` : "")), one]));
    for (const link of body.querySelectorAll("a[data-note]")) {
      const target = decodeURIComponentSafely(link.getAttribute("data-note") ?? "");
      const found = known.get(target) ?? known.get(notePath(target));
      if (found?.to) {
        link.setAttribute("href", this.noteHref(notePath(found.to)));
      } else {
        link.removeAttribute("href");
        link.classList.add("dangling");
        link.setAttribute("title", "no note has this name");
      }
    }
  }

  /** @param {HTMLElement} body @param {any[]} sections @param {string} path */
  addSectionTools(body, sections, path) {
    const isEditable = this.workspace && memoryPath(this.workspace, path) !== null;
    const headings = new Map([...body.children].filter((one) => /^H[1-6]$/.test(one.tagName))
      .map((one) => [Number(one.getAttribute("data-line")), one]));
    for (const section of sections) {
      const heading = headings.get(section.start_line);
      if (!heading) continue;
      const name = section.heading.at(-1) ?? section.anchor;
      const tools = h("span", { class: "tools sectiontools" },
        isEditable && h("button", { type: "button", class: "edit", "aria-label": `Edit ${name}`, onclick: () => this.edit(section, heading) }, "edit"),
        h("button", { type: "button", "aria-label": `Archive ${name}`, onclick: () => archive(this, section.anchor) }, "archive"),
        h("button", { type: "button", "aria-label": `Promote ${name}`, onclick: () => promote(this, section.anchor) }, "promote"));
      heading.append(" ", badges(section), tools);
    }
  }

  /** @param {any} section @param {Element} heading */
  async edit(section, heading) {
    if (this.isEditing) {
      report("Save or cancel the section that is being edited first.");
      this.editor?.form.querySelector("textarea")?.focus();
      return;
    }
    // A reading that ends later would replace the heading, and the editor with it.
    this.reading?.abort();
    this.isOpening = true;
    try {
      this.editor = await editSection(this, section.anchor, heading);
    } finally {
      this.isOpening = false;
    }
    await this.editor.ended;
    this.editor = null;
    await this.reload();
  }

  /** @param {any} note @param {any[]} sections */
  makeSections(note, sections) {
    if (!sections.length) return null;
    const rows = sections.map((/** @type {any} */ one) => [
      h("a", { href: this.noteHref(note.path, one.start_line) }, `${"· ".repeat(Math.max(0, one.level - 1))}${one.heading.at(-1) ?? note.title}`),
      `${one.start_line}–${one.end_line}`, badges(one), one.importance.toFixed(2) + (one.is_importance_stated ? "" : " by kind"),
      one.created ?? one.day, Object.entries(one.meta).map(([key, value]) => `${key}: ${value}`).join(", "),
    ]);
    return h("details", {}, h("summary", {}, `${count(note.sections.length, "section")} and ${note.sections.length === 1 ? "its" : "their"} metadata${sections.length < note.sections.length ? ` (${sections.length} in these lines)` : ""}`),
      table("Sections", ["Section", "Lines", "Labels", "Importance", "Created", "Other keys"], rows));
  }

  /** @param {string} path @param {any} linked */
  makeLinks(path, linked) {
    const isOwn = (/** @type {string} */ anchor) => notePath(anchor) === path;
    const backlinks = linked.links.filter((/** @type {any} */ one) => !isOwn(one.source));
    const dangling = linked.links.filter((/** @type {any} */ one) => isOwn(one.source) && !one.to && !one.elsewhere);
    return h("section", { class: "links" }, backlinks.length > 0 && [h("h3", {}, `Linked from ${count(backlinks.length, "place")}`),
      h("ul", {}, backlinks.map((/** @type {any} */ one) => h("li", {},
        h("a", { href: this.noteHref(notePath(one.source), one.lines[0]) }, one.source), one.relation && ` (${one.relation})`)))],
    dangling.length > 0 && [h("h3", {}, "Links that lead to no note"), h("ul", {}, dangling.map((/** @type {any} */ one) =>
      h("li", {}, `line ${one.lines[0]}: ${one.target}`, one.is_outside && " — outside the workspace", one.similar && [" — did you mean ", h("a", { href: this.noteHref(one.similar) }, one.similar), "?"])))]);
  }

  /** @param {string} path @param {any[]} problems */
  makeProblems(path, problems) {
    const own = problems.filter((one) => one.path === path);
    return own.length > 0 && h("section", { class: "problems" }, h("h3", {}, "Problems"),
      h("ul", {}, own.map((one) => h("li", {}, one.line ? h("a", { href: this.noteHref(path, one.line) }, `line ${one.line}: `) : "",
        one.problem, one.hint && h("span", { class: "quiet" }, ` → ${one.hint}`)))));
  }

  /** @param {number} line @param {boolean} isSame */
  showLine(line, isSame) {
    if (!line) {
      if (!isSame) this.article.scrollTop = 0;
      return;
    }
    const blocks = [...this.article.querySelectorAll("[data-line]")];
    const block = blocks.findLast((one) => Number(one.getAttribute("data-line")) <= line);
    if (!block) return;
    block.classList.add("shown");
    if (!isSame) block.scrollIntoView({ block: "center" });
  }

  /** @param {unknown} error */
  fail(error) {
    const isMissing = error instanceof RpcError && error.code === "note_not_found";
    const hint = error instanceof RpcError ? error.hint : "";
    fill(this.article, h("p", { class: "error" }, isMissing ? "There is no such note; it may have been moved or deleted." : String(error instanceof Error ? error.message : error)),
      hint && h("p", { class: "quiet" }, `→ ${hint}`), h("p", {}, h("button", { type: "button", onclick: () => this.reload() }, "Try again")));
    this.shownPath = this.place.values.path ?? "";
  }
}

/** @param {string} text */
function decodeURIComponentSafely(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
