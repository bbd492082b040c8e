// The notes as a tree, and one note: rendered, with its sections, metadata, links and problems.

import { badges, bytes, copyButton, count, empty, fill, h, nameAnchor, nameNote, notePath, parseRendered, quote, table, when, withCommands } from "./dom.js";
import { RpcError } from "./rpc.js";
import { report, View } from "./view.js";
import { editSection, memoryPath, remember, archive, promote } from "./write.js";

/** Entries of one page of a folder, and of the notes that the filter finds. */
const TREE_STEP = 150;
/** A folder with fewer entries shows what is in its folders, up to this depth. */
const FEW = 6, DEEP = 3;
const ORDER = new Intl.Collator(undefined, { numeric: true });
/** Notes with which a reader begins, the best first. */
const FIRST = ["MEMORY.md", "Home.md", "README.md", "index.md", "Index.md", "home.md"];
/** The shortest time between two updates of the tree. */
const LIST_PAUSE_MS = 500;
/** How long the filter waits for the next letter. */
const TYPING_MS = 80;
/** Most notes whose titles are asked for the links to a note. */
const MOST_TITLES = 50;
/** The daemon counts so many notes of a folder. */
const COUNTED = 100;

export class NotesView extends View {
  constructor() {
    super();
    this.tree = h("nav", { class: "tree", "aria-label": "Notes" });
    this.article = h("article", { class: "note", tabindex: -1 });
    this.wanted = h("input", { type: "search", placeholder: "Filter", title: "Words of the name, a kind or a #tag", "aria-label": "Filter the notes", oninput: () => this.filterLater() });
    this.shownPath = "";
    this.shownLine = "";
    /** @type {any} */
    this.workspace = null;
    this.listedWorkspace = "";
    this.listingTimer = this.typingTimer = 0;
    /** The number of the last listing; an answer to an earlier one is dropped. */
    this.turn = 0;
    this.listing = Promise.resolve();
    /** How many entries of a folder are shown, if more than a page. @type {Map<string, number>} */
    this.lengths = new Map();
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

  disconnectedCallback() {
    super.disconnectedCallback();
    clearTimeout(this.listingTimer);
    clearTimeout(this.typingTimer);
  }

  /** @param {AbortSignal} signal */
  async read(signal) {
    if (this.listedWorkspace !== this.place.workspace) {
      this.listedWorkspace = this.place.workspace;
      this.shownPath = "";
      this.lengths.clear();
      this.folders.clear();
      fill(this.tree);
      // Another note may be opened before the tree has arrived.
      this.listing = this.list();
      this.listing.catch((error) => {
        this.listedWorkspace = "";
        report(error);
      });
      const known = await this.ask("workspace.list", { workspace: undefined }, signal);
      this.workspace = known.workspaces.find((/** @type {any} */ one) => one.id === this.place.workspace);
    }
    this.toggleAttribute("data-chosen", Boolean(this.place.values.path ?? this.place.values.first));
    // The note is shown before the tree has arrived.
    const path = this.place.values.path ?? await this.findFirst(signal);
    if (path) {
      await this.showNote(path, signal);
      localStorage.setItem(this.lastKey, path);
    } else {
      await this.listing;
      // On a phone, the text stands instead of the empty list.
      this.toggleAttribute("data-chosen", true);
      const add = h("button", { type: "button", class: "main", onclick: () => remember(this) }, "Write the first note");
      fill(this.article, empty("This workspace has no notes yet.", h("p", {}, "A note is a file of markdown. Write the first one here, with any editor, or let an agent remember something:"),
        h("p", {}, add), h("p", {}, withCommands("memsyncd remember 'Sessions live in Redis.' --kind decision")),
        this.workspace && h("p", { class: "quiet" }, "The folder is ", h("code", {}, this.workspace.root), ".")));
    }
  }

  get lastKey() {
    return `note of ${this.place.workspace}`;
  }

  /** The note to begin with: the last one that was read, else the first of the workspace. @param {AbortSignal} signal */
  async findFirst(signal) {
    const last = localStorage.getItem(this.lastKey);
    const wanted = last && !this.place.values.first ? [last, ...FIRST] : FIRST;
    const found = await this.ask("list", { filters: { path: wanted }, sections: false, limit: wanted.length }, signal);
    const paths = new Set(found.notes.map((/** @type {any} */ note) => note.path));
    const best = wanted.find((path) => paths.has(path));
    if (best) return best;
    const any = await this.ask("list", { sections: false, limit: 1 }, signal);
    return any.notes[0]?.path;
  }

  /** @param {{paths: string[], workspace: string, listing: boolean}} changed */
  changed(changed) {
    if (changed.listing && !this.listingTimer) {
      this.listingTimer = window.setTimeout(() => {
        this.listingTimer = 0;
        // The first note of a workspace is shown at once.
        this.list().then(() => (this.shownPath ? undefined : this.reload())).catch(report);
      }, this.shownPath ? LIST_PAUSE_MS : 0);
    }
    // While an editor is open the note does not change; the check at saving notices changes of others.
    if (!this.isEditing && (!this.shownPath || changed.paths.includes(this.shownPath))) {
      void this.reload();
    }
  }

  // --- the tree: the entries of a folder are read when it is opened

  filterLater() {
    clearTimeout(this.typingTimer);
    this.typingTimer = window.setTimeout(() => this.list().catch(report), TYPING_MS);
  }

  /** Show the folders that are open, or the notes that the filter finds. */
  async list() {
    const turn = (this.turn += 1), { workspace } = this.place, words = this.wanted.value.trim();
    const [{ notes }, ...parts] = await Promise.all(words ? [{ notes: 0 }, this.makeFound(words)]
      : [this.ask("stats", { by: ["kind"], limit: 1 }), this.makeFolder("", 0)]);
    if (turn !== this.turn || workspace !== this.place.workspace) return;
    fill(this.tree, !words && h("p", { class: "quiet small", role: "status" }, count(notes, "note")), parts);
    this.markCurrent(this.shownPath);
  }

  /** @param {Record<string, unknown>} params @param {number} [length] @returns {Promise<{folders: any[], notes: any[], cursor: string | null}>} */
  async readEntries(params, length = TREE_STEP) {
    const found = await this.ask("list.folder", { ...params, limit: TREE_STEP });
    while (found.cursor && found.folders.length + found.notes.length < length) {
      const page = await this.ask("list.folder", { ...params, limit: TREE_STEP, cursor: found.cursor });
      found.folders.push(...page.folders);
      found.notes.push(...page.notes);
      found.cursor = page.cursor;
    }
    return found;
  }

  /** The notes that have the words, each with its folder. @param {string} words @returns {Promise<HTMLElement>} */
  async makeFound(words) {
    const { notes, cursor } = await this.readEntries({ words });
    return h("div", {}, h("p", { class: "quiet small", role: "status" }, cursor ? `the first ${count(notes.length, "note")}` : count(notes.length, "note")),
      notes.length === 0 && h("p", { class: "quiet small" }, "No name has these words. ", h("a", { href: this.href("search", { q: words }) }, "Search the texts")),
      h("ul", {}, notes.map((note) => this.makeFile(note, note.path.slice(0, note.path.lastIndexOf("/"))))));
  }

  /** Make the list of a folder. @param {string} folder @param {number} depth @returns {Promise<HTMLElement>} */
  async makeFolder(folder, depth) {
    const { folders, notes, cursor } = await this.readEntries({ folder }, this.lengths.get(folder));
    const order = (/** @type {any} */ one, /** @type {any} */ other) => ORDER.compare(one.path, other.path);
    const index = folder ? undefined : FIRST.map((path) => notes.find((note) => note.path === path)).find(Boolean);
    const isFew = folders.length + notes.length < FEW && depth < DEEP;
    const inside = await Promise.all(folders.sort(order).map(async (one) => {
      const wasOpen = this.folders.get(one.path), shown = this.shownPath || this.place.values.path || "";
      return this.makeEntry(one, depth, wasOpen ?? (isFew || shown.startsWith(`${one.path}/`)));
    }));
    const files = notes.filter((note) => note !== index).sort(order), isHere = (/** @type {string} */ path) => path.startsWith(folder && `${folder}/`) && path.indexOf("/", folder.length + 1) < 0;
    // The note that is read may stand on a later page.
    if (cursor && this.shownPath && isHere(this.shownPath) && !notes.some((note) => note.path === this.shownPath)) files.push({ path: this.shownPath, title: "", kind: null, tags: [] });
    const more = cursor && h("li", {}, h("button", { type: "button", class: "plain", onclick: () => {
      this.lengths.set(folder, folders.length + notes.length + TREE_STEP);
      this.list().catch(report);
    } }, "More…"));
    return h("ul", {}, index && this.makeFile(index), inside, files.map((note) => this.makeFile(note)), more);
  }

  /** @param {{path: string, n_notes: number}} folder @param {number} depth @param {boolean} isOpen @returns {Promise<HTMLElement>} */
  async makeEntry({ path, n_notes: n }, depth, isOpen) {
    const details = h("details", { "data-folder": path, open: isOpen },
      h("summary", {}, path.slice(path.lastIndexOf("/") + 1), h("span", { class: "quiet small" }, n < COUNTED ? ` ${n}` : ` ${COUNTED - 1}+`)));
    if (isOpen) details.append(await this.makeFolder(path, depth + 1));
    details.addEventListener("toggle", () => {
      this.folders.set(path, details.open);
      if (!details.open || details.children.length > 1) return;
      details.append(h("ul"));
      this.makeFolder(path, depth + 1).then((list) => {
        details.lastElementChild?.replaceWith(list);
        this.markCurrent(this.shownPath);
      }).catch(report);
    });
    return h("li", {}, details);
  }

  /** @param {any} note @param {string} [folder] */
  makeFile(note, folder) {
    return h("li", {}, h("a", { class: "entry", href: this.noteHref(note.path), "data-path": note.path, title: [note.path, ...note.tags.map((/** @type {string} */ tag) => `#${tag}`)].join("  ") },
      note.title || nameNote(note.path), " ", badges({ kind: note.kind }), folder && h("span", { class: "quiet small where" }, folder)));
  }

  /** Show a note in the tree: open its folders, and mark it. @param {string} path */
  async openFolders(path) {
    await this.listing;
    const link = [...this.tree.querySelectorAll("a")].find((one) => one.dataset.path === path);
    if (link) {
      for (let parent = link.closest("details"); parent; parent = parent.parentElement?.closest("details") ?? null) parent.open = true;
      this.markCurrent(path);
    } else if (!this.wanted.value.trim()) {
      for (let cut = path.indexOf("/"); cut >= 0; cut = path.indexOf("/", cut + 1)) this.folders.set(path.slice(0, cut), true);
      await this.list();
    }
    this.tree.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
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
    // A link of a text names a note as its writer does.
    if (!/\.(md|markdown|txt)$/i.test(path)) path = (await this.ask("render", { path }, signal)).path;
    // The text is shown even if a busy daemon does not answer one of the other calls.
    const instead = (/** @type {any} */ empty) => (/** @type {unknown} */ error) => {
      // The first of the calls says that the note is gone.
      if (!signal.aborted && !isNoteMissing(error)) report(error);
      return empty;
    };
    const [rendered, listed, linked, problems] = await Promise.all([
      this.ask("render", { path, line: Math.max(1, Number(line) || 1) }, signal),
      this.ask("list", { path }, signal).catch(instead({ notes: [] })),
      this.ask("links", { path, limit: 200 }, signal).catch(() => ({ links: [], n_links: 0 })),
      this.ask("problems", { path }, signal).catch(instead({ problems: [] })),
    ]);
    const titles = await this.readTitles(linked.links.filter((/** @type {any} */ one) => notePath(one.source) !== path), signal).catch(instead(new Map()));
    signal.throwIfAborted();
    const note = listed.notes.find((/** @type {any} */ one) => one.path === path);
    const isSame = this.shownPath === path && this.shownLine === line;
    const scroll = this.article.scrollTop;
    const body = h("div", { class: "rendered" });
    body.append(parseRendered(rendered.html));
    this.shownPath = path;
    this.shownLine = line;
    const said = body.firstElementChild?.localName === "h1" ? body.firstElementChild.textContent?.trim() ?? "" : "";
    this.resolveLinks(body, path, linked.links);
    const sections = (note?.sections ?? []).filter((/** @type {any} */ one) => one.start_line >= rendered.start_line && one.start_line <= rendered.end_line);
    this.addSectionTools(body, sections, path);
    fill(this.article, this.makeHead(path, rendered, note, said), this.makePager(path, rendered), body, this.makePager(path, rendered),
      this.makeProblems(path, problems.problems), this.makeSections(note, sections), this.makeLinks(path, linked, titles));
    if (isSame) this.article.scrollTop = scroll;
    this.showLine(Number(line), isSame);
    this.markCurrent(path);
    if (!isSame) this.openFolders(path).catch(report);
    if (!isSame && document.activeElement === document.body) this.article.focus({ preventScroll: true });
  }

  /** @param {string} path @param {any} rendered @param {any} note @param {string} said The first heading, if the note begins with it. */
  makeHead(path, rendered, note, said) {
    const title = note?.title || nameNote(path);
    const facts = note ? [count(rendered.n_lines, "line"), " · ", bytes(note.size_bytes), " · saved ", when(note.modified_at)] : [];
    const own = note?.sections[0]?.level < 2 ? note.sections[0] : {};
    return h("header", {}, h("a", { class: "button plain back", href: this.href("notes") }, "‹ all notes"),
      // The title of most notes is their first heading; it is printed once.
      h("h2", { class: said === title ? "hidden" : null }, title),
      h("p", { class: "quiet small" }, h("code", {}, path), " · ", facts), note && h("p", {}, badges({ ...own, kind: note.kind, tags: note.tags }), Object.entries(own.meta ?? {}).map(([key, value]) => h("span", { class: "badge" }, `${key}: ${value}`))),
      h("div", { class: "tools" }, h("a", { class: "button plain", href: this.href("history", { path }) }, "Its history"), h("a", { class: "button plain", href: this.href("graph", { path }) }, "Its links"),
        copyButton("Copy place", path), copyButton("Copy link", `[[${nameNote(path)}]]`), copyButton("Copy command", `memsyncd get ${quote(path)} -w ${quote(this.workspace?.name ?? "")}`)));
  }

  /** Links to the other parts of a long note. @param {string} path @param {any} rendered */
  makePager(path, rendered) {
    const { start_line: first, end_line: last, n_lines: all } = rendered;
    if (first === 1 && last >= all) return null;
    return h("p", { class: "tools" }, `Lines ${first.toLocaleString()}–${last.toLocaleString()} of ${all.toLocaleString()}`,
      first > 1 && h("a", { class: "button", href: this.noteHref(path, 1) }, "first"),
      first > 1 && h("a", { class: "button", href: this.noteHref(path, first - 1) }, "before"),
      last < all && h("a", { class: "button", href: this.noteHref(path, last + 1) }, "further"),
      last < all && h("a", { class: "button", href: this.noteHref(path, all) }, "last"));
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
        if (found.superseded_by) link.after(" ", h("a", { class: "badge", href: this.noteHref(notePath(found.superseded_by)) }, `superseded by ${nameAnchor(found.superseded_by)}`));
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
      const button = (/** @type {string} */ label, /** @type {() => void} */ act) => h("button", { type: "button", class: `plain ${label.toLowerCase()}`, "aria-label": `${label} ${name}`, onclick: act }, label);
      const tools = h("span", { class: "sectiontools" }, isEditable && button("Edit", () => void this.edit(section, heading)),
        button("Archive", () => void archive(this, section.anchor)), button("Promote", () => void promote(this, section.anchor)),
        copyButton("Copy place", `${path}:${section.start_line}-${section.end_line}`));
      heading.append(" ", badges(listOwn(section, sections[0])), tools);
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
      table("Sections", ["Section", "Lines", "Labels", "Importance", "Date", "Other keys"], rows));
  }

  /** The titles of the notes from which links come. @param {any[]} links @param {AbortSignal} signal @returns {Promise<Map<string, string>>} */
  async readTitles(links, signal) {
    const paths = [...new Set(links.map((one) => notePath(one.source)))].slice(0, MOST_TITLES);
    const { notes } = paths.length ? await this.ask("list", { filters: { path: paths }, sections: false, limit: paths.length }, signal) : { notes: [] };
    return new Map(notes.map((/** @type {any} */ note) => [note.path, note.title]));
  }

  /** @param {string} path @param {any} linked @param {Map<string, string>} titles */
  makeLinks(path, linked, titles) {
    const isOwn = (/** @type {string} */ anchor) => notePath(anchor) === path;
    const titleOf = (/** @type {string} */ anchor) => titles.get(notePath(anchor));
    const backlinks = linked.links.filter((/** @type {any} */ one) => !isOwn(one.source));
    const dangling = linked.links.filter((/** @type {any} */ one) => isOwn(one.source) && !one.to && !one.elsewhere);
    return h("section", { class: "prose links" }, backlinks.length > 0 && [h("h3", {}, `Linked from ${count(backlinks.length, "place")}`),
      h("ul", {}, backlinks.map((/** @type {any} */ one) => h("li", {},
        h("a", { href: this.noteHref(notePath(one.source), one.lines[0]) }, nameAnchor(one.source, titleOf(one.source))), one.relation && h("span", { class: "quiet" }, ` ${one.relation.replace(/_/g, " ")}`))))],
    dangling.length > 0 && [h("h3", {}, "Links that lead to no note"), h("ul", {}, dangling.map((/** @type {any} */ one) =>
      h("li", {}, `line ${one.lines[0]}: ${one.target}`, one.is_outside && " — outside the workspace", one.similar && [" — did you mean ", h("a", { href: this.noteHref(one.similar) }, nameNote(one.similar)), "?"])))]);
  }

  /** @param {string} path @param {any[]} problems */
  makeProblems(path, problems) {
    const own = problems.filter((one) => one.path === path);
    return own.length > 0 && h("section", { class: "problems" }, h("h3", {}, "Problems"),
      h("ul", {}, own.map((one) => h("li", {}, one.line ? h("a", { href: this.noteHref(path, one.line) }, `line ${one.line}: `) : "",
        one.problem, one.hint && h("span", { class: "quiet" }, " → ", withCommands(one.hint))))));
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
    const isMissing = isNoteMissing(error);
    const hint = error instanceof RpcError ? error.hint : "";
    fill(this.article, h("p", { class: "error" }, isMissing ? "There is no such note; it may have been moved or deleted." : String(error instanceof Error ? error.message : error)),
      hint && h("p", { class: "quiet" }, `→ ${hint}`), h("p", {}, h("button", { type: "button", onclick: () => this.reload() }, "Try again")));
    this.shownPath = this.place.values.path ?? "";
  }
}

/** @param {unknown} error */
function isNoteMissing(error) {
  return error instanceof RpcError && error.code === "note_not_found";
}

/** The labels of a section that its note's first section does not have already. @param {any} section @param {any} first */
function listOwn(section, first) {
  if (section === first && first.level < 2) return {};
  const own = (/** @type {string} */ key) => (section[key] === first[key] ? null : section[key]);
  return { kind: own("kind"), priority: own("priority"), status: own("status"), lifecycle: own("lifecycle"), task: own("task"), is_expired: section.is_expired,
    tags: section.tags.filter((/** @type {string} */ tag) => !first.tags.includes(tag)) };
}

/** @param {string} text */
function decodeURIComponentSafely(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
