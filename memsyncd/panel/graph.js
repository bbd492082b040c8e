// The links between notes as a picture on a canvas, and as a list for people who cannot see the
// picture or point at it.

import { count, fill, h, notePath } from "./dom.js";
import { Layout } from "./layout.js";
import { report, View } from "./view.js";

const DARK = matchMedia("(prefers-color-scheme: dark)");
const LIMIT = 10000;
const LISTED = 500;
const RADIUS = 5;
const LABELS_FROM = 0.9;
const MOST_LABELS = 300;
/** Most lines in one path: many crossing lines in one path take several times as long to draw. */
const PATH_LINES = 20;
/** Most lines that are drawn while the picture moves; when it rests, all lines are drawn. */
/** More lines take too long for a frame, so they are drawn only when the picture rests. */
const MOVING_LINES = 2000;
const REST_MS = 150;

export class GraphView extends View {
  constructor() {
    super();
    this.canvas = h("canvas", { tabindex: 0, role: "img" });
    this.about = h("p", { class: "quiet", role: "status" });
    this.list = h("details");
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
    if (!this.firstChild) {
      const reset = h("button", { type: "button", onclick: () => { this.isMoved = false; this.fit(); } }, "Fit");
      fill(this, h("div", { class: "tools" }, this.about, reset), this.canvas, this.list);
    }
    this.resizer.observe(this.canvas);
    DARK.addEventListener("change", this.onScheme);
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    this.resizer.disconnect();
    DARK.removeEventListener("change", this.onScheme);
    this.worker?.terminate();
    clearTimeout(this.timer);
    cancelAnimationFrame(this.frame);
    this.frame = 0;
  }

  /** @param {AbortSignal} signal */
  async read(signal) {
    const { path } = this.place.values;
    const found = await this.ask("links", { limit: LIMIT, ...(path ? { path, depth: 2 } : {}) }, signal);
    const names = new Set(path ? [path] : []);
    /** @type {Map<string, {from: string, to: string, relation: string}>} */
    const edges = new Map();
    for (const one of found.links) {
      if (!one.to) continue;
      const from = notePath(one.source), to = notePath(one.to);
      if (from === to) continue;
      names.add(from).add(to);
      edges.set(`${from} ${one.relation} ${to}`, { from, to, relation: one.relation });
    }
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
    const what = path ? `around ${path}` : "of all notes";
    this.about.textContent = `${count(this.paths.length, "note")} and ${count(edges.size, "link")} ${what}${found.n_links > LIMIT ? `; of ${found.n_links} links the first ${LIMIT} are shown` : ""}`;
    this.canvas.setAttribute("aria-label", `Picture of ${this.about.textContent}. The same is listed below.`);
    this.showList([...edges.values()]);
  }

  /** @param {{from: string, to: string, relation: string}[]} edges */
  showList(edges) {
    const items = edges.slice(0, LISTED).map((one) => h("li", {}, h("a", { href: this.noteHref(one.from) }, one.from), one.relation ? ` — ${one.relation} → ` : " → ",
      h("a", { href: this.noteHref(one.to) }, one.to)));
    fill(this.list, h("summary", {}, "The links as a list"), h("ul", {}, items), edges.length > LISTED && h("p", {}, `${edges.length - LISTED} more`));
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
    pen.fillStyle = style.getPropertyValue("--accent");
    for (let i = 0; i < n; i += 1) {
      const px = x[i] ?? 0, py = y[i] ?? 0;
      if (px < -20 || py < -20 || px > width + 20 || py > height + 20) continue;
      pen.beginPath();
      pen.arc(px, py, this.radius(i), 0, 7);
      pen.fill();
    }
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
    this.stroke(pen, x, y, edges, style.getPropertyValue("--line"), 1);
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

  /** Name the visible notes: all of them if there is room, else the notes with many links. @param {CanvasRenderingContext2D} pen @param {Float32Array} x @param {Float32Array} y @param {CSSStyleDeclaration} style */
  drawLabels(pen, x, y, style) {
    const { layout, scale } = this;
    const width = this.canvas.clientWidth, height = this.canvas.clientHeight;
    pen.fillStyle = style.getPropertyValue("--text");
    pen.font = `${0.8 * parseFloat(style.fontSize)}px system-ui, sans-serif`;
    let shown = 0;
    for (let i = 0; i < this.paths.length && shown < MOST_LABELS; i += 1) {
      const px = x[i] ?? 0, py = y[i] ?? 0;
      if (px < -100 || py < 0 || px > width || py > height) continue;
      if (i !== this.shown && scale <= LABELS_FROM && this.paths.length >= 60 && (layout.degree[i] ?? 0) <= 12) continue;
      const path = this.paths[i] ?? "", name = path.slice(path.lastIndexOf("/") + 1).replace(/\.md$/, "");
      const room = pen.measureText(name).width, gap = this.radius(i) + 4;
      // A name that would cross the right edge is written to the left of its note.
      pen.fillText(name, px + gap + room > width ? Math.max(0, px - gap - room) : px + gap, py + 4);
      shown += 1;
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
