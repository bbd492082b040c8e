// The notes as a tree, and one note: rendered, with its sections, metadata, links and problems.

import { badges, bytes, count, fill, h, parseRendered, table, when } from "./dom.js";
import { RpcError } from "./rpc.js";
import { report, View } from "./view.js";
import { editSection, remember, archive, promote } from "./write.js";

const TREE_STEP = 400;
/** Changes of a large vault are shown at most so often. */
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
    this.shownDigest = "";
    this.listedWorkspace = "";
    this.listingTimer = 0;
    this.isEditing = false;
  }

  connectedCallback() {
    if (this.firstChild) return;
    const add = h("button", { type: "button", onclick: () => remember(this) }, "Remember…");
    fill(this, h("aside", { class: "side" }, h("div", { class: "tools" }, this.wanted, add), this.tree),
      this.article);
  }

  /** @param {AbortSignal} signal */
  async read(signal) {
    if (this.listedWorkspace !== this.place.workspace) {
      this.shownPath = "";
      await this.list(signal);
    }
    const path = this.place.values.path ?? this.firstPath();
    if (!path) {
      fill(this.article, h("p", {}, "This workspace has no notes yet. Write the first one with "
        + "“Remember…”, or with any editor."));
      return;
    }
    this.markCurrent(path);
    await this.showNote(path, signal);
  }

  /** @param {AbortSignal} [signal] */
  async list(signal) {
    const found = await this.ask("list", { sections: false }, signal);
    this.notes = found.notes;
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
        this.list().catch(report);
      }, this.notes.length > TREE_STEP ? LIST_PAUSE_MS : 0);
    }
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
    fill(this.tree, h("p", { class: "quiet", role: "status" }, what),
      this.makeFolder("", chosen, words.length > 0));
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
      const details = h("details", { open: isOpen || folders.size + files.length < 6 || (this.place.values.path ?? "").startsWith(inner) },
        h("summary", {}, name, h("span", { class: "quiet" }, ` ${inside.length}`)));
      const show = () => {
        if (details.open && details.children.length === 1) details.append(this.makeFolder(inner, inside, isOpen));
      };
      details.addEventListener("toggle", show);
      show();
      list.append(h("li", {}, details));
    }
    this.addFiles(list, files, 0);
    return list;
  }

  /** @param {HTMLElement} list @param {any[]} files @param {number} from */
  addFiles(list, files, from) {
    for (const note of files.slice(from, from + TREE_STEP)) {
      const name = note.path.slice(note.path.lastIndexOf("/") + 1);
      list.append(h("li", {}, h("a", { class: "entry", href: this.noteHref(note.path), "data-path": note.path, title: note.title },
        name), note.kind && h("span", { class: "badge kind" }, note.kind)));
    }
    if (files.length <= from + TREE_STEP) return;
    const more = h("button", { type: "button" }, `${files.length - from - TREE_STEP} more`);
    const item = h("li", {}, more);
    more.addEventListener("click", () => {
      item.remove();
      this.addFiles(list, files, from + TREE_STEP);
    });
    list.append(item);
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
    const [rendered, listed, linked, problems] = await Promise.all([
      this.ask("render", { path }, signal),
      this.ask("list", { path }, signal),
      this.ask("links", { path, limit: 200 }, signal).catch(() => ({ links: [], n_links: 0 })),
      this.ask("problems", {}, signal),
    ]);
    const note = listed.notes.find((/** @type {any} */ one) => one.path === path);
    const isSame = this.shownPath === path;
    const scroll = this.article.scrollTop;
    const body = h("div", { class: "rendered" });
    body.append(parseRendered(rendered.html));
    this.shownPath = path;
    this.shownDigest = rendered.digest;
    this.resolveLinks(body, path, linked.links);
    if (note) this.addSectionTools(body, note);
    fill(this.article, this.makeHead(path, rendered, note), body,
      this.makeProblems(path, problems.problems), this.makeSections(note), this.makeLinks(path, linked));
    if (isSame) this.article.scrollTop = scroll;
    this.showLine(Number(this.place.values.line ?? 0), isSame);
    this.markCurrent(path);
  }

  /** @param {string} path @param {any} rendered @param {any} note */
  makeHead(path, rendered, note) {
    const facts = note ? [count(rendered.n_lines, "line"), " · ", bytes(note.size_bytes), " · saved ", when(note.modified_at)] : [];
    return h("header", {}, h("h2", {}, note?.title ?? path), h("p", { class: "quiet" }, h("code", {}, path), " · ", facts),
      h("p", {}, note && badges(note), " ", h("a", { href: this.href("history", { path }) }, "history"), " ",
        h("a", { href: this.href("graph", { path }) }, "graph")));
  }

  /**
   * Lead links to other notes to their place in the panel, as the daemon has resolved them.
   * @param {HTMLElement} body @param {string} path @param {any[]} links
   */
  resolveLinks(body, path, links) {
    const known = new Map(links.filter((one) => one.source.split("#")[0] === path)
      .map((one) => [one.target + (one.heading ? `#${one.heading}` : ""), one]));
    for (const link of body.querySelectorAll("a[data-note]")) {
      const target = decodeURIComponentSafely(link.getAttribute("data-note") ?? "");
      const found = known.get(target) ?? known.get(target.split("#")[0] ?? "");
      if (found?.to) {
        link.setAttribute("href", this.noteHref(found.to.split("#")[0]));
      } else {
        link.removeAttribute("href");
        link.classList.add("dangling");
        link.setAttribute("title", "no note has this name");
      }
    }
  }

  /** @param {HTMLElement} body @param {any} note */
  addSectionTools(body, note) {
    for (const section of note.sections) {
      const heading = [...body.children].find((one) => one.getAttribute("data-line") === String(section.start_line) && /^H[1-6]$/.test(one.tagName));
      if (!heading) continue;
      heading.id = `line-${section.start_line}`;
      const name = section.heading.at(-1) ?? section.anchor;
      const tools = h("span", { class: "tools" },
        h("button", { type: "button", class: "edit", "aria-label": `Edit ${name}`, onclick: () => this.edit(section, heading) }, "edit"),
        h("button", { type: "button", "aria-label": `Archive ${name}`, onclick: () => archive(this, section.anchor) }, "archive"),
        h("button", { type: "button", "aria-label": `Promote ${name}`, onclick: () => promote(this, section.anchor) }, "promote"));
      heading.append(badges(section), tools);
    }
  }

  /** @param {any} section @param {Element} heading */
  edit(section, heading) {
    this.isEditing = true;
    void editSection(this, section.anchor, heading).finally(() => {
      this.isEditing = false;
      void this.reload();
    });
  }

  /** @param {any} note */
  makeSections(note) {
    if (!note?.sections.length) return null;
    const rows = note.sections.map((/** @type {any} */ one) => [
      h("a", { href: this.noteHref(note.path, one.start_line) }, `${"· ".repeat(Math.max(0, one.level - 1))}${one.heading.at(-1) ?? note.title}`),
      `${one.start_line}–${one.end_line}`, badges(one), one.importance.toFixed(2) + (one.is_importance_stated ? "" : " by kind"),
      one.created ?? one.day, Object.entries(one.meta).map(([key, value]) => `${key}: ${value}`).join(", "),
    ]);
    return h("details", {}, h("summary", {}, `${count(note.sections.length, "section")} and their metadata`),
      table("Sections", ["Section", "Lines", "Labels", "Importance", "Created", "Other keys"], rows));
  }

  /** @param {string} path @param {any} linked */
  makeLinks(path, linked) {
    const isOwn = (/** @type {string} */ anchor) => anchor.split("#")[0] === path;
    const backlinks = linked.links.filter((/** @type {any} */ one) => !isOwn(one.source));
    const dangling = linked.links.filter((/** @type {any} */ one) => isOwn(one.source) && !one.to);
    return h("section", { class: "links" }, backlinks.length > 0 && [h("h3", {}, `Linked from ${count(backlinks.length, "place")}`),
      h("ul", {}, backlinks.map((/** @type {any} */ one) => h("li", {},
        h("a", { href: this.noteHref(one.source.split("#")[0], one.lines[0]) }, one.source), one.relation && ` (${one.relation})`)))],
    dangling.length > 0 && [h("h3", {}, "Links that lead to no note"), h("ul", {}, dangling.map((/** @type {any} */ one) =>
      h("li", {}, `line ${one.lines[0]}: ${one.target}`, one.similar && [" — did you mean ", h("a", { href: this.noteHref(one.similar) }, one.similar), "?"])))]);
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
    fill(this.article, h("p", { class: "error" }, isMissing ? "There is no such note; it may have been moved or deleted." : String(error instanceof Error ? error.message : error)));
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
