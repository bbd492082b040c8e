// The links between notes as a picture on a canvas, with the same as a list for those who do not see
// or point at it.

import { count, fill, h } from "./dom.js";
import { Layout } from "./layout.js";
import { View } from "./view.js";

const LIMIT = 10000;
const LISTED = 500;
const RADIUS = 5;
const LABELS_FROM = 0.9;

export class GraphView extends View {
  constructor() {
    super();
    this.canvas = h("canvas", { tabindex: 0, role: "img" });
    this.about = h("p", { class: "quiet", role: "status" });
    this.list = h("details");
    this.layout = new Layout([], []);
    /** @type {string[]} */
    this.paths = [];
    this.scale = 1;
    this.origin = { x: 0, y: 0 };
    this.frame = 0;
    this.shown = -1;
    this.shownPlace = "";
    /** True once the picture was dragged or scaled by hand. */
    this.isMoved = false;
    this.resizer = new ResizeObserver(() => this.draw());
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
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    this.resizer.disconnect();
    cancelAnimationFrame(this.frame);
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
      const from = one.source.split("#")[0], to = one.to.split("#")[0];
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
      this.layout = new Layout(this.paths, pairs);
      // After a save the picture stays as it was, but for what is new.
      if (before.size) this.layout.settle(this.paths.map((name) => before.get(name)));
      else this.isMoved = false;
      this.shownPlace = place;
      this.shown = -1;
      if (!this.isMoved) this.fit();
      this.run();
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

  /** Let the notes find their places; each frame a few steps, until they rest. */
  run() {
    cancelAnimationFrame(this.frame);
    const isStill = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const next = () => {
      const until = performance.now() + 8;
      let moved = 0;
      do moved = this.layout.step();
      while (performance.now() < until && moved > 0.2);
      const isRunning = moved > 0.2 && this.layout.n_steps < 600 && this.isConnected;
      // Nothing moves before the eyes of those who do not want it: only the end is drawn.
      if (isStill && isRunning && this.layout.n_steps > 1) {
        this.frame = requestAnimationFrame(next);
        return;
      }
      if (!this.isMoved) this.fit();
      else this.draw();
      if (isRunning) this.frame = requestAnimationFrame(next);
    };
    next();
  }

  fit() {
    const box = this.layout.bounds();
    const { clientWidth: width, clientHeight: height } = this.canvas;
    this.scale = Math.min(2, 0.92 * Math.min(width / (box.right - box.left + 40), height / (box.bottom - box.top + 40)));
    this.origin = { x: (box.left + box.right) / 2, y: (box.top + box.bottom) / 2 };
    this.draw();
  }

  draw() {
    const { canvas, layout, scale, origin } = this;
    const ratio = devicePixelRatio || 1;
    const width = canvas.clientWidth, height = canvas.clientHeight;
    if (!width) return;
    if (canvas.width !== width * ratio || canvas.height !== height * ratio) [canvas.width, canvas.height] = [width * ratio, height * ratio];
    const pen = canvas.getContext("2d");
    if (!pen) return;
    const style = getComputedStyle(this);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.translate(width / 2, height / 2);
    pen.scale(scale, scale);
    pen.translate(-origin.x, -origin.y);
    pen.strokeStyle = style.getPropertyValue("--line");
    pen.lineWidth = 1 / scale;
    pen.beginPath();
    for (const [from = 0, to = 0] of layout.edges) {
      pen.moveTo(layout.x[from] ?? 0, layout.y[from] ?? 0);
      pen.lineTo(layout.x[to] ?? 0, layout.y[to] ?? 0);
    }
    pen.stroke();
    pen.fillStyle = style.getPropertyValue("--accent");
    pen.beginPath();
    for (let at = 0; at < this.paths.length; at += 1) {
      const radius = RADIUS + Math.min(8, Math.sqrt(layout.degree[at] ?? 0));
      pen.moveTo((layout.x[at] ?? 0) + radius, layout.y[at] ?? 0);
      pen.arc(layout.x[at] ?? 0, layout.y[at] ?? 0, radius, 0, 7);
    }
    pen.fill();
    this.drawLabels(pen, style);
  }

  /** @param {CanvasRenderingContext2D} pen @param {CSSStyleDeclaration} style */
  drawLabels(pen, style) {
    const { layout, scale } = this;
    pen.fillStyle = style.getPropertyValue("--text");
    pen.font = `${12 / scale}px system-ui, sans-serif`;
    for (let at = 0; at < this.paths.length; at += 1) {
      const isShown = at === this.shown || scale > LABELS_FROM || this.paths.length < 60 || (layout.degree[at] ?? 0) > 12;
      if (!isShown) continue;
      const name = this.paths[at] ?? "";
      pen.fillText(name.slice(name.lastIndexOf("/") + 1).replace(/\.md$/, ""), (layout.x[at] ?? 0) + 9, (layout.y[at] ?? 0) + 4);
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
      this.draw();
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
      this.draw();
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
    this.scaleBy(event.deltaY < 0 ? 1.15 : 1 / 1.15);
  }

  /** @param {number} factor */
  scaleBy(factor) {
    this.isMoved = true;
    this.scale = Math.max(0.02, Math.min(6, this.scale * factor));
    this.draw();
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
    this.draw();
  }
}
