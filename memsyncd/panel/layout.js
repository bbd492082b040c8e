// Places for the notes of a graph, by forces: linked notes attract each other, close notes repel. A
// grid keeps a step linear in the number of notes (Fruchterman and Reingold, 1991, grid variant).
// The page imports the class to hold places; as a worker, this module computes them beside the page.

const LENGTH = 60;
const REACH = 2.5 * LENGTH;
const GRAVITY = 0.12;
const COOLING = 0.985;
const RESTS = 0.2;
const MOST_STEPS = 600;
/** Steps between two answers: about a frame's time, so that the page shows how the notes move. */
const ANSWER_MS = 30;

export class Layout {
  /** @param {number} n @param {number[][]} edges Pairs of numbers of notes. */
  constructor(n, edges) {
    this.edges = edges;
    this.x = new Float64Array(n);
    this.y = new Float64Array(n);
    this.dx = new Float64Array(n);
    this.dy = new Float64Array(n);
    this.degree = new Uint32Array(n);
    this.n_steps = 0;
    this.heat = LENGTH;
    // The notes begin on a spiral, so that the same graph always gets the same picture.
    for (let at = 0; at < n; at += 1) {
      const angle = at * 2.399963;
      const radius = 0.55 * LENGTH * Math.sqrt(at + 1);
      this.x[at] = radius * Math.cos(angle);
      this.y[at] = radius * Math.sin(angle);
    }
    for (const [from = 0, to = 0] of edges) {
      this.degree[from] = (this.degree[from] ?? 0) + 1;
      this.degree[to] = (this.degree[to] ?? 0) + 1;
    }
  }

  /** Move all notes once; return the longest move. */
  step() {
    const { x, y, dx, dy } = this;
    dx.fill(0);
    dy.fill(0);
    this.repel();
    for (const [from = 0, to = 0] of this.edges) {
      const ax = at(x, from) - at(x, to), ay = at(y, from) - at(y, to);
      const pull = 0.5 * Math.hypot(ax, ay) / LENGTH / Math.sqrt(1 + Math.min(at(this.degree, from), at(this.degree, to)));
      push(dx, dy, from, -ax * pull, -ay * pull);
      push(dx, dy, to, ax * pull, ay * pull);
    }
    let most = 0;
    for (let i = 0; i < x.length; i += 1) {
      const mx = at(dx, i) - at(x, i) * GRAVITY, my = at(dy, i) - at(y, i) * GRAVITY;
      const length = Math.hypot(mx, my) || 1;
      const go = Math.min(length, this.heat);
      push(x, y, i, (mx / length) * go, (my / length) * go);
      most = Math.max(most, go);
    }
    this.heat *= COOLING;
    this.n_steps += 1;
    return most;
  }

  /** Push close notes apart: the notes of a cell of a grid, and of the cells around it. */
  repel() {
    const { x, y } = this, n = x.length, box = this.bounds();
    const width = box.right - box.left, height = box.bottom - box.top;
    // If a few notes are far away, the cells get larger, instead of many empty cells.
    const size = Math.max(REACH, Math.sqrt((width * height) / (4 * n + 64)));
    const columns = Math.floor(width / size) + 2, rows = Math.floor(height / size) + 1;
    const cells = new Uint32Array(n), begins = new Uint32Array(columns * rows + 1), members = new Uint32Array(n);
    for (let i = 0; i < n; i += 1) {
      const cell = Math.floor((at(y, i) - box.top) / size) * columns + Math.floor((at(x, i) - box.left) / size);
      cells[i] = cell;
      begins[cell] = at(begins, cell) + 1;
    }
    for (let cell = 1; cell < begins.length; cell += 1) begins[cell] = at(begins, cell) + at(begins, cell - 1);
    for (let i = n - 1; i >= 0; i -= 1) {
      const place = at(begins, at(cells, i)) - 1;
      begins[at(cells, i)] = place;
      members[place] = i;
    }
    // Each pair is visited once: within the cell, with the cell to the right, and with the three cells below. The last column is empty.
    const begin = (/** @type {number} */ cell) => begins[cell] ?? n;
    for (let place = 0; place < n; place += 1) {
      const i = at(members, place), cell = at(cells, i);
      this.repelFrom(i, members, place + 1, begin(cell + 2));
      this.repelFrom(i, members, begin(cell + columns - 1), begin(cell + columns + 2));
    }
  }

  /** Push a note apart from some others. @param {number} i @param {Uint32Array} members @param {number} first @param {number} end */
  repelFrom(i, members, first, end) {
    const { x, y, dx, dy } = this, ox = at(x, i), oy = at(y, i);
    let fx = 0, fy = 0;
    for (let place = first; place < end; place += 1) {
      const other = at(members, place);
      const ax = ox - at(x, other), ay = oy - at(y, other);
      const square = ax * ax + ay * ay;
      if (square > REACH * REACH) continue;
      const force = (LENGTH * LENGTH) / Math.max(square, 1);
      const px = (ax || 0.1) * force, py = (ay || 0.1) * force;
      fx += px;
      fy += py;
      push(dx, dy, other, -px, -py);
    }
    push(dx, dy, i, fx, fy);
  }

  /** Begin with the earlier places; only notes without a place move far. @param {(number[] | undefined)[]} places */
  settle(places) {
    places.forEach((place, at) => {
      if (place) [this.x[at], this.y[at]] = [place[0] ?? 0, place[1] ?? 0];
    });
    this.heat = LENGTH / 6;
    this.n_steps = 60;
  }

  bounds() {
    const box = { left: -50, right: 50, top: -50, bottom: 50 };
    for (let i = 0; i < this.x.length; i += 1) {
      box.left = Math.min(box.left, at(this.x, i));
      box.right = Math.max(box.right, at(this.x, i));
      box.top = Math.min(box.top, at(this.y, i));
      box.bottom = Math.max(box.bottom, at(this.y, i));
    }
    return box;
  }

  /** The note nearest to a point, -1 if none is within reach. @param {number} px @param {number} py @param {number} reach */
  nearest(px, py, reach) {
    let best = -1, least = reach * reach;
    for (let i = 0; i < this.x.length; i += 1) {
      const square = (at(this.x, i) - px) ** 2 + (at(this.y, i) - py) ** 2;
      if (square < least) [best, least] = [i, square];
    }
    return best;
  }
}

/** @param {Float64Array | Uint32Array} values @param {number} index */
function at(values, index) {
  return values[index] ?? 0;
}

/** @param {Float64Array} xs @param {Float64Array} ys @param {number} index @param {number} x @param {number} y */
function push(xs, ys, index, x, y) {
  xs[index] = at(xs, index) + x;
  ys[index] = at(ys, index) + y;
}

/** @typedef {{n: number, edges: number[][], places?: (number[] | undefined)[]}} Task */

/** Compute places until the notes rest, and answer with them now and then. @param {Task} task */
function compute({ n, edges, places }) {
  const layout = new Layout(n, edges);
  if (places) layout.settle(places);
  const next = () => {
    const until = performance.now() + ANSWER_MS;
    let moved = 0;
    do moved = layout.step();
    while (performance.now() < until && moved > RESTS && layout.n_steps < MOST_STEPS);
    const isOver = moved <= RESTS || layout.n_steps >= MOST_STEPS;
    postMessage({ x: layout.x, y: layout.y, isOver });
    if (!isOver) setTimeout(next);
  };
  next();
}

if (typeof document === "undefined") addEventListener("message", (event) => compute(event.data), { once: true });
