// Places for the notes of a graph, by forces: linked notes attract each other, near ones repel. A
// grid keeps a step linear in the number of notes (Fruchterman and Reingold, 1991, grid variant).

const LENGTH = 60;
const REACH = 2.5 * LENGTH;
const GRAVITY = 0.012;
const COOLING = 0.985;

export class Layout {
  /** @param {string[]} names @param {number[][]} edges Pairs of indexes of names. */
  constructor(names, edges) {
    const n = names.length;
    this.edges = edges;
    this.x = new Float64Array(n);
    this.y = new Float64Array(n);
    this.degree = new Uint32Array(n);
    this.n_steps = 0;
    this.heat = LENGTH;
    // A spiral: the same graph always begins, and so ends, alike.
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

  /** Move all notes once; return how far the most moved one went. */
  step() {
    const { x, y } = this;
    const n = x.length;
    const dx = new Float64Array(n), dy = new Float64Array(n);
    this.repel(dx, dy);
    for (const [from = 0, to = 0] of this.edges) {
      const ax = at(x, from) - at(x, to), ay = at(y, from) - at(y, to);
      const pull = Math.hypot(ax, ay) / LENGTH / Math.sqrt(1 + Math.min(at(this.degree, from), at(this.degree, to)));
      dx[from] = at(dx, from) - ax * pull * 0.5;
      dy[from] = at(dy, from) - ay * pull * 0.5;
      dx[to] = at(dx, to) + ax * pull * 0.5;
      dy[to] = at(dy, to) + ay * pull * 0.5;
    }
    let most = 0;
    for (let i = 0; i < n; i += 1) {
      const mx = at(dx, i) - at(x, i) * GRAVITY * 10, my = at(dy, i) - at(y, i) * GRAVITY * 10;
      const length = Math.hypot(mx, my) || 1;
      const go = Math.min(length, this.heat);
      x[i] = at(x, i) + (mx / length) * go;
      y[i] = at(y, i) + (my / length) * go;
      most = Math.max(most, go);
    }
    this.heat *= COOLING;
    this.n_steps += 1;
    return most;
  }

  /** @param {Float64Array} dx @param {Float64Array} dy */
  repel(dx, dy) {
    const { x, y } = this;
    /** @type {Map<string, number[]>} */
    const cells = new Map();
    for (let i = 0; i < x.length; i += 1) {
      const key = `${Math.floor(at(x, i) / REACH)},${Math.floor(at(y, i) / REACH)}`;
      const cell = cells.get(key);
      if (cell) cell.push(i);
      else cells.set(key, [i]);
    }
    for (const [key, cell] of cells) {
      const [column = 0, row = 0] = key.split(",").map(Number);
      for (let right = -1; right <= 1; right += 1) {
        for (let down = -1; down <= 1; down += 1) {
          const near = cells.get(`${column + right},${row + down}`);
          if (near) this.repelCell(cell, near, dx, dy);
        }
      }
    }
  }

  /** @param {number[]} cell @param {number[]} near @param {Float64Array} dx @param {Float64Array} dy */
  repelCell(cell, near, dx, dy) {
    const { x, y } = this;
    for (const i of cell) {
      for (const other of near) {
        const ax = at(x, i) - at(x, other), ay = at(y, i) - at(y, other);
        const square = ax * ax + ay * ay;
        if (i === other || square > REACH * REACH) continue;
        const push = (LENGTH * LENGTH) / Math.max(square, 1);
        dx[i] = at(dx, i) + (ax || (i < other ? 0.1 : -0.1)) * push;
        dy[i] = at(dy, i) + (ay || 0.1) * push;
      }
    }
  }

  /** Begin where notes were before; only what has no place yet goes far. @param {(number[] | undefined)[]} places */
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
