// The links between notes as a picture on a canvas, and as a list for people who cannot see the
// picture or point at it.

import { count, empty, fill, h, lead, makeSwitch, nameNote, notePath } from "./dom.js";
import { Layout } from "./layout.js";
import { report, View } from "./view.js";

const DARK = matchMedia("(prefers-color-scheme: dark)");
/** Links of the first picture: of the notes with the most links. More are read on request. */
const PART = 600;
const MOST = 9600;
const LISTED = 200;
/** Notes without links that are added to the picture. */
const MOST_ORPHANS = 300;
/** Notes outside of the picture that the finder offers. */
const OFFERED = 8;
const TYPING_MS = 120;
const HUES = 8;
const RADIUS = 5;
/** Room of a name in square pixels; names in a smaller room could not be told apart. */
const LABEL_ROOM = 18_000;
/** All notes of a picture of so many are named, even if the names overlap. */
const ALL_NAMED = 12;
/** Most lines in one path: many crossing lines in one path take several times as long to draw. */
const PATH_LINES = 20;
/** More lines take too long for a frame, so they are drawn only when the picture rests. */
const MOVING_LINES = 2000;
const REST_MS = 150;

export class GraphView extends View {
  constructor() {
    super();
    this.canvas = h("canvas", { tabindex: 0, role: "img" });
    this.about = h("p", { class: "quiet", role: "status" });
    this.legend = h("ul", { class: "legend", "aria-label": "Folders" });
    this.list = h("details");
    this.finder = h("input", { type: "search", placeholder: "Find a note", "aria-label": "Find a note in the picture", autocomplete: "off", spellcheck: "false", oninput: () => this.search() });
    this.tools = h("form", { class: "chips", onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); this.goToFirst(); } });
    const zoom = (/** @type {string} */ text, /** @type {string} */ label, /** @type {() => void} */ act) => h("button", { type: "button", "aria-label": label, title: label, onclick: act }, text);
    this.zoomTools = h("div", { class: "zoom" }, zoom("+", "Larger", () => this.scaleBy(1.3)), zoom("−", "Smaller", () => this.scaleBy(1 / 1.3)),
      zoom("⤢", "Fit", () => { this.isMoved = false; this.fit(); }));
    this.picture = h("div", { class: "graph" }, this.canvas, this.zoomTools);
    this.instead = h("div");
    this.others = h("p", { class: "chips" });
    this.typing = 0;
    /** True if the workspace has links that the picture does not show. */
    this.isPart = false;
    /** The folder of each note, as a number of `folders`. @type {number[]} */
    this.folderOf = [];
    /** @type {string[]} */
    this.folders = [];
    /** The folder that is highlighted, empty for none. */
    this.chosenFolder = "";
    /** The notes that the finder matches; null without a search. @type {Set<number> | null} */
    this.matched = null;
    this.layout = new Layout(0, []);
    /** @type {Worker | null} */
    this.worker = null;
    /** @type {string[]} */
    this.paths = [];
    this.scale = 1;
    this.origin = { x: 0, y: 0 };
    this.frame = this.timer = 0;
    this.shown = -1;
    this.shownPlace = "";
    /** True once the picture was dragged or scaled by hand. */
    this.isMoved = false;
    this.resizer = new ResizeObserver(() => (this.isMoved ? this.redraw() : this.fit()));
    this.onScheme = () => this.redraw();
    this.canvas.addEventListener("pointerdown", (event) => this.drag(event));
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("wheel", (event) => this.zoom(event), { passive: false });
    this.canvas.addEventListener("keydown", (event) => this.onKey(event));
  }

  connectedCallback() {
    if (!this.firstChild) fill(this, lead("Notes as dots, and links between them as lines. A click on a dot opens its note."), this.tools, this.others, this.about, this.instead, this.picture, this.legend, this.list);
    this.resizer.observe(this.canvas);
    DARK.addEventListener("change", this.onScheme);
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    this.resizer.disconnect();
    DARK.removeEventListener("change", this.onScheme);
    this.worker?.terminate();
    clearTimeout(this.timer);
    clearTimeout(this.typing);
    cancelAnimationFrame(this.frame);
    this.frame = 0;
  }

  /** @param {AbortSignal} signal */
  async read(signal) {
    const { path, orphans = "", n = "" } = this.place.values;
    fill(this.tools, this.finder, !path && makeSwitch("Notes without links", Boolean(orphans), (isOn) => (location.hash = this.href("graph", { n, orphans: isOn ? "1" : "" }))),
      path && h("a", { class: "chip", "aria-current": "true", href: this.href("graph"), "aria-label": "Show all notes" }, `around ${nameNote(path)} ×`));
    const [found, lonely] = await Promise.all([
      this.ask("links", { limit: Number(n) || PART, ...(path ? { path, depth: 2 } : { sort: "most" }) }, signal),
      orphans ? this.ask("links", { orphans: true, limit: MOST_ORPHANS }, signal) : { orphans: [] }]);
    this.show(found.links, found.n_links, lonely.orphans);
  }

  /** @param {any[]} links @param {number} nLinks @param {string[]} orphans */
  show(links, nLinks, orphans) {
    const { path } = this.place.values;
    const names = new Set(path ? [path] : []);
    /** @type {Map<string, {from: string, to: string, relation: string}>} */
    const edges = new Map();
    for (const one of links) {
      if (!one.to) continue;
      const from = notePath(one.source), to = notePath(one.to);
      if (from === to) continue;
      names.add(from).add(to);
      edges.set(`${from} ${one.relation} ${to}`, { from, to, relation: one.relation });
    }
    for (const orphan of orphans) names.add(orphan);
    const previous = this.paths;
    const isSame = previous.join() === [...names].join();
    this.paths = [...names];
    const index = new Map(this.paths.map((name, at) => [name, at]));
    const pairs = [...edges.values()].map((one) => [index.get(one.from) ?? 0, index.get(one.to) ?? 0]);
    if (!isSame || pairs.length !== this.layout.edges.length) {
      const place = `${this.place.workspace} ${path ?? ""}`;
      const before = place === this.shownPlace ? new Map(previous.map((name, at) => [name, [this.layout.x[at] ?? 0, this.layout.y[at] ?? 0]])) : new Map();
      this.layout = new Layout(this.paths.length, pairs);
      // After a save the picture stays as it was; only new notes and links are added.
      const places = before.size ? this.paths.map((name) => before.get(name)) : null;
      if (places) this.layout.settle(places);
      else this.isMoved = false;
      this.shownPlace = place;
      this.shown = -1;
      this.run({ n: this.paths.length, edges: pairs, ...(places ? { places } : {}) });
    }
    const about = `${count(this.paths.length, "note")} and ${count(edges.size, "link")}${orphans.length ? ` · ${orphans.length < MOST_ORPHANS ? "" : "the first "}${count(orphans.length, "note")} without links` : ""}`;
    this.isPart = links.length < nLinks || Boolean(path);
    const more = Math.min(MOST, 4 * links.length);
    fill(this.about, about, links.length < nLinks && [path ? ` · the nearest of ${nLinks.toLocaleString()} links` : ` · the notes with the most links; in all there are ${nLinks.toLocaleString()} links `,
      more > links.length && h("a", { class: "button plain", href: this.href("graph", { ...this.place.values, n: more }) }, "Show more")]);
    this.canvas.setAttribute("aria-label", `Picture of ${about}. The same is listed below.`);
    const isEmpty = names.size === 0 || path !== undefined && edges.size === 0;
    for (const element of [this.picture, this.about, this.legend, this.list]) element.hidden = isEmpty;
    fill(this.instead, isEmpty && empty(path ? "This note has no links." : "No note leads to another yet.", h("p", {}, "Write ", h("code", {}, "[[Name of a note]]"), " in a note, and the two stand here side by side. A list item such as ", h("code", {}, "- needs [[Name]]"), " says how they belong together."),
      !path && h("p", {}, "Notes without links appear with the switch above.")));
    this.findFolders();
    this.showList([...edges.values()]);
    this.search();
  }

  /** Give each folder with many notes a colour: the first folders in which the notes differ. */
  findFolders() {
    const parts = this.paths.map((path) => path.split("/").slice(0, -1));
    let depth = 0;
    while (parts.length && parts.every((part) => part.length > depth && part[depth] === parts[0]?.[depth])) depth += 1;
    const names = parts.map((part) => part[depth] ?? "");
    /** @type {Map<string, number>} */
    const counts = new Map();
    for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
    this.folders = [...counts].sort((one, other) => other[1] - one[1]).slice(0, HUES).map(([name]) => name);
    this.folderOf = names.map((name) => this.folders.indexOf(name));
    fill(this.legend, this.folders.length > 1 && this.folders.map((name, at) => {
      const button = h("button", { type: "button", class: `hue-${at}`, "aria-pressed": String(this.chosenFolder === (name || "/")), onclick: () => {
        this.chosenFolder = this.chosenFolder === (name || "/") ? "" : name || "/";
        this.findFolders();
        this.redraw();
      } }, name || "top folder", h("span", { class: "quiet" }, counts.get(name)));
      return h("li", {}, button);
    }));
  }

  /** Highlight the notes whose names hold the words. */
  search() {
    const words = this.finder.value.toLowerCase().split(/\s+/).filter(Boolean);
    this.matched = words.length ? new Set(this.paths.flatMap((path, at) => (words.every((word) => path.toLowerCase().includes(word)) ? [at] : []))) : null;
    this.redraw();
    clearTimeout(this.typing);
    fill(this.others);
    if (words.length && this.isPart) this.typing = window.setTimeout(() => this.offer(words.join(" ")).catch(report), TYPING_MS);
  }

  /** Offer notes that are not in the picture. @param {string} words */
  async offer(words) {
    const { notes } = await this.ask("list.folder", { words, limit: OFFERED });
    const others = notes.filter((/** @type {any} */ note) => !this.paths.includes(note.path));
    if (others.length) fill(this.others, "Not in the picture: ", others.map((/** @type {any} */ note) => h("a", { class: "chip", href: this.href("graph", { path: note.path }) }, note.title || nameNote(note.path))));
  }

  /** Move the picture to the first note that the finder matches. */
  goToFirst() {
    const [first] = this.matched ?? [];
    if (first === undefined) return;
    this.isMoved = true;
    this.scale = Math.max(this.scale, 1);
    this.origin = { x: this.layout.x[first] ?? 0, y: this.layout.y[first] ?? 0 };
    this.shown = first;
    this.redraw();
  }

  /** True for a note that is not dimmed. @param {number} at */
  isLit(at) {
    const folder = this.folders[this.folderOf[at] ?? -1];
    return (!this.matched || this.matched.has(at)) && (!this.chosenFolder || folder !== undefined && (folder || "/") === this.chosenFolder);
  }

  /** @param {{from: string, to: string, relation: string}[]} edges */
  showList(edges) {
    const items = edges.slice(0, LISTED).map((one) => h("li", {}, h("a", { href: this.noteHref(one.from) }, nameNote(one.from)), h("span", { class: "quiet" }, one.relation ? ` ${one.relation.replace(/_/g, " ")} → ` : " → "),
      h("a", { href: this.noteHref(one.to) }, nameNote(one.to))));
    fill(this.list, h("summary", {}, "The links as a list"), h("ul", { class: "list" }, items), edges.length > LISTED && h("p", { class: "quiet" }, `${(edges.length - LISTED).toLocaleString()} more; the links of one note stand below it`));
  }

  /** Compute the places of the notes in a worker. @param {import("./layout.js").Task} task */
  run(task) {
    this.worker?.terminate();
    const worker = new Worker(new URL("layout.js", import.meta.url), { type: "module" });
    this.worker = worker;
    const isStill = matchMedia("(prefers-reduced-motion: reduce)").matches;
    worker.addEventListener("message", ({ data }) => {
      if (this.worker !== worker) return;
      [this.layout.x, this.layout.y] = [data.x, data.y];
      if (data.isOver) worker.terminate();
      this.canvas.toggleAttribute("data-settled", data.isOver);
      // For users who want no motion, only the final picture is drawn.
      if (isStill && !data.isOver) return;
      if (this.isMoved) this.redraw();
      else this.fit();
    });
    worker.addEventListener("error", (event) => report(new Error(`the picture is not arranged: ${event.message}`)));
    worker.postMessage(task);
  }

  fit() {
    const box = this.layout.bounds();
    const { clientWidth: width, clientHeight: height } = this.canvas;
    this.scale = Math.min(2, 0.92 * Math.min(width / (box.right - box.left + 40), height / (box.bottom - box.top + 40)));
    this.origin = { x: (box.left + box.right) / 2, y: (box.top + box.bottom) / 2 };
    this.redraw();
  }

  /** Draw with the next frame, once for any number of calls. */
  redraw() {
    clearTimeout(this.timer);
    if (this.layout.edges.length > MOVING_LINES) this.timer = window.setTimeout(() => this.draw(this.layout.edges.length), REST_MS);
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.draw(MOVING_LINES);
    });
  }

  /** @param {number} mostLines */
  draw(mostLines) {
    const { canvas, layout, scale, origin } = this;
    const ratio = devicePixelRatio || 1;
    const width = canvas.clientWidth, height = canvas.clientHeight;
    if (!width) return;
    const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (canvas.width !== wide || canvas.height !== high) [canvas.width, canvas.height] = [wide, high];
    const pen = canvas.getContext("2d");
    if (!pen) return;
    const style = getComputedStyle(this);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    const n = this.paths.length;
    const x = new Float32Array(n), y = new Float32Array(n);
    for (let i = 0; i < n; i += 1) {
      x[i] = ((layout.x[i] ?? 0) - origin.x) * scale + width / 2;
      y[i] = ((layout.y[i] ?? 0) - origin.y) * scale + height / 2;
    }
    this.drawLines(pen, x, y, style, mostLines);
    const hues = [...Array(HUES).keys()].map((at) => style.getPropertyValue(`--hue-${at}`)), other = style.getPropertyValue("--quiet");
    for (let i = 0; i < n; i += 1) {
      const px = x[i] ?? 0, py = y[i] ?? 0;
      if (px < -20 || py < -20 || px > width + 20 || py > height + 20) continue;
      pen.fillStyle = hues[this.folderOf[i] ?? -1] ?? other;
      pen.globalAlpha = this.isLit(i) || i === this.shown ? 1 : 0.15;
      pen.beginPath();
      pen.arc(px, py, this.radius(i), 0, 7);
      pen.fill();
    }
    pen.globalAlpha = 1;
    this.drawLabels(pen, x, y, style);
  }

  /** The radius on the screen, by the number of links. @param {number} i */
  radius(i) {
    return Math.max(1.5, (RADIUS + Math.min(8, Math.sqrt(this.layout.degree[i] ?? 0))) * Math.min(1.5, this.scale));
  }

  /** @param {CanvasRenderingContext2D} pen @param {Float32Array} x @param {Float32Array} y @param {CSSStyleDeclaration} style @param {number} most */
  drawLines(pen, x, y, style, most) {
    const width = this.canvas.clientWidth, height = this.canvas.clientHeight;
    const isNear = (/** @type {number} */ a, /** @type {number} */ b, /** @type {number} */ end) => Math.max(a, b) >= 0 && Math.min(a, b) <= end;
    let edges = this.layout.edges.filter(([from = 0, to = 0]) => isNear(x[from] ?? 0, x[to] ?? 0, width) && isNear(y[from] ?? 0, y[to] ?? 0, height));
    const every = Math.ceil(edges.length / most);
    if (every > 1) edges = edges.filter((_, at) => at % every === 0);
    pen.globalAlpha = 0.35;
    this.stroke(pen, x, y, edges, style.getPropertyValue("--edge"), 1);
    pen.globalAlpha = 1;
    if (this.shown < 0) return;
    this.stroke(pen, x, y, this.layout.edges.filter((pair) => pair.includes(this.shown)), style.getPropertyValue("--accent"), 2);
  }

  /** @param {CanvasRenderingContext2D} pen @param {Float32Array} x @param {Float32Array} y @param {number[][]} edges @param {string} color @param {number} width */
  stroke(pen, x, y, edges, color, width) {
    pen.strokeStyle = color;
    pen.lineWidth = width;
    for (let first = 0; first < edges.length; first += PATH_LINES) {
      pen.beginPath();
      for (const [from = 0, to = 0] of edges.slice(first, first + PATH_LINES)) {
        pen.moveTo(x[from] ?? 0, y[from] ?? 0);
        pen.lineTo(x[to] ?? 0, y[to] ?? 0);
      }
      pen.stroke();
    }
  }

  /** Name the visible notes, the notes with many links first, as long as the names do not overlap. @param {CanvasRenderingContext2D} pen @param {Float32Array} x @param {Float32Array} y @param {CSSStyleDeclaration} style */
  drawLabels(pen, x, y, style) {
    const { layout } = this;
    const width = this.canvas.clientWidth, height = this.canvas.clientHeight, size = 0.8 * parseFloat(style.fontSize);
    pen.font = `${size}px system-ui, sans-serif`;
    pen.strokeStyle = style.getPropertyValue("--back");
    pen.lineWidth = 3;
    pen.lineJoin = "round";
    const inView = [...this.paths.keys()].filter((i) => (x[i] ?? 0) > -8 && (y[i] ?? 0) > 0 && (x[i] ?? 0) < width + 8 && (y[i] ?? 0) < height);
    const rank = (/** @type {number} */ i) => (i === this.shown ? 1e9 : 0) + (this.isLit(i) ? 1e6 : 0) + (layout.degree[i] ?? 0);
    inView.sort((one, another) => rank(another) - rank(one));
    // The buttons lie above the picture.
    const { offsetLeft, offsetTop, offsetWidth, offsetHeight } = this.zoomTools;
    const taken = [[offsetLeft - 6, offsetTop - 6, offsetLeft + offsetWidth, offsetTop + offsetHeight + 6]];
    for (const i of inView.slice(0, Math.max(ALL_NAMED, (width * height) / LABEL_ROOM))) {
      if (!this.isLit(i) && i !== this.shown) break;
      const px = x[i] ?? 0, py = y[i] ?? 0, name = nameNote(this.paths[i] ?? ""), room = pen.measureText(name).width, gap = this.radius(i) + 4;
      const across = Math.max(0, Math.min(width - room, px - room / 2));
      // To the right, to the left, below, above. No name crosses an edge of the picture.
      const places = [[px + gap, py], [px - gap - room, py], [across, py + gap + size / 2], [across, py - gap - size / 2]].filter(([left = 0]) => left >= 0 && left + room <= width);
      const isFree = (/** @type {number[]} */ [left = 0, middle = 0]) => !taken.some(([l = 0, t = 0, r = 0, b = 0]) => left < r && left + room > l && middle - size / 2 < b && middle + size / 2 > t);
      const place = places.find(isFree) ?? (i === this.shown || this.paths.length <= ALL_NAMED ? places[0] : undefined);
      if (!place) continue;
      const [left = 0, middle = 0] = place;
      taken.push([left - 6, middle - size, left + room + 6, middle + size]);
      pen.fillStyle = style.getPropertyValue("--text");
      pen.strokeText(name, left, middle + size / 3);
      pen.fillText(name, left, middle + size / 3);
    }
  }

  /** @param {MouseEvent} event */
  findNote(event) {
    const x = (event.offsetX - this.canvas.clientWidth / 2) / this.scale + this.origin.x;
    const y = (event.offsetY - this.canvas.clientHeight / 2) / this.scale + this.origin.y;
    return this.layout.nearest(x, y, 14 / this.scale + RADIUS);
  }

  /** @param {PointerEvent} event */
  point(event) {
    const at = this.findNote(event);
    this.canvas.style.cursor = at < 0 ? "grab" : "pointer";
    if (at !== this.shown) {
      this.shown = at;
      this.canvas.title = this.paths[at] ?? "";
      this.redraw();
    }
  }

  /** Drag the picture; a press that does not move opens the note. @param {PointerEvent} event */
  drag(event) {
    const { canvas } = this;
    let { clientX: x, clientY: y } = event;
    let isMoved = false;
    const move = (/** @type {PointerEvent} */ now) => {
      this.isMoved = true;
      isMoved ||= Math.hypot(now.clientX - event.clientX, now.clientY - event.clientY) > 4;
      this.origin = { x: this.origin.x - (now.clientX - x) / this.scale, y: this.origin.y - (now.clientY - y) / this.scale };
      [x, y] = [now.clientX, now.clientY];
      this.redraw();
    };
    const end = () => {
      canvas.removeEventListener("pointermove", move);
      const at = this.findNote(event);
      if (!isMoved && at >= 0) location.hash = this.noteHref(this.paths[at] ?? "");
    };
    canvas.setPointerCapture(event.pointerId);
    canvas.addEventListener("pointermove", move);
    canvas.addEventListener("pointerup", end, { once: true });
  }

  /** @param {WheelEvent} event */
  zoom(event) {
    event.preventDefault();
    // The point below the pointer stays where it is.
    const x = event.offsetX - this.canvas.clientWidth / 2, y = event.offsetY - this.canvas.clientHeight / 2;
    const before = this.scale;
    this.scaleBy(event.deltaY < 0 ? 1.15 : 1 / 1.15);
    this.origin = { x: this.origin.x + x / before - x / this.scale, y: this.origin.y + y / before - y / this.scale };
  }

  /** @param {number} factor */
  scaleBy(factor) {
    this.isMoved = true;
    this.scale = Math.max(0.02, Math.min(6, this.scale * factor));
    this.redraw();
  }

  /** @param {KeyboardEvent} event */
  onKey(event) {
    const by = 60 / this.scale;
    /** @type {Record<string, () => void>} */
    const acts = {
      ArrowLeft: () => (this.origin.x -= by), ArrowRight: () => (this.origin.x += by), ArrowUp: () => (this.origin.y -= by), ArrowDown: () => (this.origin.y += by),
      "+": () => this.scaleBy(1.2), "-": () => this.scaleBy(1 / 1.2), 0: () => this.fit(),
    };
    const act = acts[event.key];
    if (!act) return;
    event.preventDefault();
    act();
    this.redraw();
  }
}
