"use strict";
// The pictures. Each has data, draw(pen, width, height), at(x, y), which finds what is under a pointer, and alt, its text for readers who
// do not see it. None of them computes a gradient: numbers come from the worker.

// themed is a color by its name in the style sheet, such as positive; it follows the theme. Other colors stay.
const themed = (color) => Theme.get()[color] || color;

// colorBar draws a scale at the right of a plot, with its levels.
function colorBar(pen, x, y, h, scale, low, high, levels) {
  const t = Theme.get(), steps = 64;
  for (let i = 0; i < steps; i++) {
    pen.rect(x, y + h * (1 - (i + 1) / steps), 9, h / steps + 0.6, {fill: rgb(shade(scale, (i + 0.5) / steps))});
  }
  pen.rect(x, y, 9, h, {stroke: t.faint, width: 1});
  let last = Infinity;
  for (const level of levels) {
    const at = y + h * (1 - (level - low) / (high - low));
    if (Math.abs(last - at) < 13) continue;
    last = at;
    pen.line([[x + 9, at], [x + 12, at]], {stroke: t.quiet, width: 1});
    const text = number(level).length > 5 ? number(Number(level.toPrecision(2))) : number(level); // Room for some six characters.
    pen.text(text, x + 15, at, {size: 10.5, baseline: "middle", fill: t.quiet});
  }
}

// roundLevels are four to eight round values inside (low, high).
function roundLevels(low, high) {
  if (!(high > low)) return [];
  const step = roundStep((high - low) / 5), out = [];
  for (let v = Math.ceil(low / step + 1e-6) * step; v < high - 1e-6 * step; v += step) out.push(Number(v.toPrecision(12)));
  return out;
}

// contour is the line on which values on a grid have a level: segments in grid coordinates, by marching squares.
function contour(values, side, level) {
  const out = [];
  const v = (i, j) => values[j * side + i];
  for (let j = 0; j + 1 < side; j++) {
    for (let i = 0; i + 1 < side; i++) {
      const corners = [[i, j], [i + 1, j], [i + 1, j + 1], [i, j + 1]], cuts = [];
      for (let k = 0; k < 4; k++) {
        const [a, b] = [corners[k], corners[(k + 1) % 4]], p = v(...a) - level, q = v(...b) - level;
        if (Number.isFinite(p) && Number.isFinite(q) && (p < 0) !== (q < 0)) {
          const f = p / (p - q);
          cuts.push([a[0] + f * (b[0] - a[0]), a[1] + f * (b[1] - a[1])]);
        }
      }
      for (let k = 0; k + 1 < cuts.length; k += 2) out.push([cuts[k], cuts[k + 1]]);
    }
  }
  return out;
}

// interpolate reads a grid of values between its points.
function interpolate(values, side, x, y) {
  const i = Math.min(Math.max(Math.floor(x), 0), side - 2), j = Math.min(Math.max(Math.floor(y), 0), side - 2);
  const f = Math.min(Math.max(x - i, 0), 1), g = Math.min(Math.max(y - j, 0), 1);
  const v = (a, b) => values[b * side + a];
  return (v(i, j) * (1 - f) + v(i + 1, j) * f) * (1 - g) + (v(i, j + 1) * (1 - f) + v(i + 1, j + 1) * f) * g;
}

// Diagram is the triplet diagram: a weight over S_ap and S_an, arrows to where a step takes a triplet, and triplets.
class Diagram {
  constructor() {
    this.low = 0; this.high = 1; this.side = 0;
    this.values = null;        // [side*side]
    this.title = "";
    this.hue = "weight";       // pull, push or weight.
    this.range = null;         // The color scale, if it is fixed.
    this.arrows = null;        // An answer of the worker's method field.
    this.triplets = null;      // {sap, san, count}
    this.marks = [];           // {sap, san, label, open}: triplets to drag; an open one is a ring.
    this.lit = null;
    this.ink = "";             // A color of the triplets where there are no values.
    this.corner = null;        // Above which both similarities are high.
  }

  frame(w, h) {
    const left = 50, top = 24, room = this.ink ? 14 : 60; // For a scale of colors.
    const size = Math.max(Math.min(w - left - room, h - top - 40), 40);
    const x = left + Math.max((w - left - room - size) / 2, 0);
    const span = this.high - this.low;
    return {x, y: top, size, px: (s) => x + size * (s - this.low) / span, py: (s) => top + size * (1 - (s - this.low) / span),
      sx: (p) => this.low + span * (p - x) / size, sy: (p) => this.low + span * (1 - (p - top) / size)};
  }

  extent() {
    if (this.range) return this.range;
    let low = Infinity, high = -Infinity;
    for (const v of this.values || []) if (Number.isFinite(v)) { low = Math.min(low, v); high = Math.max(high, v); }
    if (!(low <= high)) return [0, 1];
    if (low < 0) { high = Math.max(high, -low); low = -high; } else if (low < 0.3 * high) low = 0;
    if (high - low < 1e-9) return low === 0 ? [0, 1] : [0, 2 * high];
    return [low, high];
  }

  valueAt(sap, san) {
    if (!this.values) return NaN;
    const at = (s) => (this.side - 1) * (s - this.low) / (this.high - this.low);
    return interpolate(this.values, this.side, at(sap), at(san));
  }

  draw(pen, w, h) {
    const t = Theme.get(), f = this.frame(w, h), [low, high] = this.extent();
    const scale = low < 0 ? t.diverging : t[this.hue];
    const dark = (value) => { // Whether the color under a line is dark.
      const c = shade(scale, (value - low) / (high - low));
      return 0.299 * c[0] + 0.587 * c[1] + 0.114 * c[2] < 125;
    };
    if (this.values) {
      this.image = paint(this.image, this.values, this.side, this.side, scale, low, high, true);
      pen.clip(f.x, f.y, f.size, f.size, () => {
        // The image's pixels stand around the grid's points, which begin on the frame.
        const cell = f.size / (this.side - 1);
        pen.image(this.image, f.x - cell / 2, f.y - cell / 2, f.size + cell, f.size + cell, true);
      });
      const levels = roundLevels(low, high), cell = f.size / (this.side - 1), spots = [];
      for (const level of levels) { // A little above it: where a weight is constant it has the level but for rounding, and no line.
        const ink = dark(level) ? "#ffffff" : "#1c2530";
        const segments = contour(this.values, this.side, level + 1e-4 * (high - low)), place = (s) => s.map(([i, j]) => [f.x + i * cell, f.y + f.size - j * cell]);
        const line = segments.map(place), calm = segments.filter((s) => this.reach(s) < levels[1] - levels[0]).map(place); // All lines meet at a jump.
        const label = number(level), spot = this.labelSpot(levels.length > 1 ? calm : line, f, pen.textWidth(label, 10.5), spots);
        if (spot) spots.push(spot);
        const half = spot ? pen.textWidth(label, 10.5) / 2 + 3 : 0;
        const seen = spot ? line.filter((s) => !s.some(([x, y]) => Math.abs(x - spot[0]) < half && Math.abs(y - spot[1]) < 7)) : line;
        pen.lines(seen, {stroke: ink, width: 0.9, alpha: 0.75});
        if (spot) pen.text(label, spot[0], spot[1], {size: 10.5, align: "center", baseline: "middle", fill: ink});
      }
      colorBar(pen, f.x + f.size + 10, f.y, f.size, scale, low, high, [low, ...levels, high]);
    } else {
      pen.rect(f.x, f.y, f.size, f.size, {fill: t.field});
    }
    pen.line([[f.px(Math.max(this.low, -1)), f.py(Math.max(this.low, -1))], [f.px(this.high), f.py(this.high)]],
      {stroke: t.dark ? "#ffffff" : "#1c2530", width: 1, dash: [2, 4], alpha: 0.55});
    if (this.arrows) this.drawArrows(pen, f);
    if (this.corner) pen.rect(f.px(this.corner), f.y, f.px(this.high) - f.px(this.corner), f.py(this.corner) - f.y, {stroke: t.ink, width: 1.2, fill: t.paper});
    this.drawTriplets(pen, f);
    pen.rect(f.x, f.y, f.size, f.size, {stroke: t.quiet, width: 1});
    for (const s of this.high - this.low > 1.5 ? [-1, -0.5, 0, 0.5, 1] : [0, 0.25, 0.5, 0.75, 1]) {
      if (s < this.low - 1e-9 || s > this.high + 1e-9) continue;
      pen.line([[f.px(s), f.y + f.size], [f.px(s), f.y + f.size + 4]], {stroke: t.quiet, width: 1});
      pen.line([[f.x, f.py(s)], [f.x - 4, f.py(s)]], {stroke: t.quiet, width: 1});
      pen.text(number(s), f.px(s), f.y + f.size + 6, {size: 10.5, align: "center", baseline: "top", fill: t.quiet});
      pen.text(number(s), f.x - 7, f.py(s), {size: 10.5, align: "right", baseline: "middle", fill: t.quiet});
    }
    pen.text("S_{ap}", f.x + f.size / 2, f.y + f.size + 32, {size: 12.5, align: "center", fill: t.ink});
    pen.text("S_{an}", f.x - 37, f.y + f.size / 2, {size: 12.5, align: "center", fill: t.ink, turn: -Math.PI / 2});
    pen.text(this.title, f.x + f.size / 2, f.y - 9, {size: 12.5, align: "center", fill: t.ink, weight: 600});
  }

  // reach is the range of the values around a segment of a contour.
  reach([[x1, y1], [x2, y2]]) {
    const i = Math.floor((x1 + x2) / 2), j = Math.floor((y1 + y2) / 2), n = this.side;
    const around = [0, 1, n, n + 1].map((k) => this.values[Math.min(j, n - 2) * n + Math.min(i, n - 2) + k]);
    return Math.max(...around) - Math.min(...around);
  }

  // labelSpot is a point of a contour for its label: near the falling diagonal, away from the frame, the marked triplets and other labels.
  labelSpot(line, f, width, spots) {
    let best = null, least = Infinity;
    for (const [[x1, y1], [x2, y2]] of line) {
      const x = (x1 + x2) / 2, y = (y1 + y2) / 2;
      if (x < f.x + width / 2 + 5 || x > f.x + f.size - width / 2 - 5 || y < f.y + 9 || y > f.y + f.size - 9) continue;
      if (spots.some(([sx, sy]) => Math.abs(sx - x) < width + 6 && Math.abs(sy - y) < 14)) continue;
      let cost = Math.abs((x - f.x) - (y - f.y));
      for (const m of this.marks) { // A mark's name is beside it.
        if (Math.abs(f.px(m.sap) - x) < (m.label ? 62 : 24) && Math.abs(f.py(m.san) - y) < 20) cost += f.size;
      }
      if (this.triplets) {
        for (let k = 0; k < Math.min(this.triplets.count, 400); k++) {
          if (Math.abs(f.px(this.triplets.sap[k]) - x) < width / 2 + 4 && Math.abs(f.py(this.triplets.san[k]) - y) < 9) cost += f.size / 5;
        }
      }
      if (cost < least) { least = cost; best = [x, y]; }
    }
    return best;
  }

  drawArrows(pen, f) {
    const a = this.arrows, room = f.size / (a.side - 1) * 0.8;
    let most = 0;
    for (let k = 0; k < a.dsap.length; k++) {
      const m = Math.hypot(a.dsap[k], a.dsan[k]);
      if (Number.isFinite(m)) most = Math.max(most, m);
    }
    if (!(most > 0)) return;
    const ink = Theme.get().dark ? "#ffffff" : "#16202b";
    for (let k = 0; k < a.dsap.length; k++) {
      const m = Math.hypot(a.dsap[k], a.dsan[k]), x = f.px(a.sap[k]), y = f.py(a.san[k]);
      if (!(m > most * 1e-3) || x < f.x + 2 || x > f.x + f.size - 2 || y < f.y + 2 || y > f.y + f.size - 2) continue;
      const length = room * Math.sqrt(m / most); // The root, so that weak steps still show.
      pen.arrow(x, y, x + a.dsap[k] / m * length, y - a.dsan[k] / m * length, {stroke: ink, width: 1.1, head: 5, alpha: 0.6});
    }
  }

  drawTriplets(pen, f) {
    const t = Theme.get(), s = this.triplets;
    if (s) {
      const small = s.count > 300 ? 1.6 : 2.9, [ink, edge] = this.ink ? [themed(this.ink), t.field] : ["#16202b", "#ffffff"];
      const lit = this.lit ? new Set(this.lit.triplets) : null;
      const one = (k, strong) => {
        const x = Math.min(Math.max(f.px(s.sap[k]), f.x), f.x + f.size), y = Math.min(Math.max(f.py(s.san[k]), f.y), f.y + f.size);
        const outside = s.sap[k] < this.low || s.san[k] < this.low; // Drawn on the frame, hollow.
        pen.circle(x, y, strong ? 5.5 : small, {fill: outside ? t.paper : strong ? t.accent : ink, stroke: outside ? ink : edge,
          width: strong ? 1.8 : this.ink ? 0.4 : 0.9, alpha: lit && !strong ? 0.35 : 0.95});
      };
      for (let k = 0; k < s.count; k++) if (!lit || !lit.has(k)) one(k, false);
      if (lit) for (const k of lit) if (k < s.count) one(k, true);
    }
    for (const m of this.marks) {
      const x = f.px(Math.max(m.sap, this.low)), y = f.py(Math.max(m.san, this.low));
      if (m.open) pen.circle(x, y, 6.5, {fill: "#ffffff", stroke: "#16202b", width: 2.6});
      else pen.circle(x, y, 7, {fill: t.accent, stroke: "#ffffff", width: 2});
      if (m.label) {
        const right = x < f.x + f.size * 0.7;
        pen.text(m.label, x + (right ? 12 : -12), y, {size: 12, align: right ? "left" : "right", baseline: "middle", fill: "#16202b", weight: 600,
          halo: "#ffffff"});
      }
    }
  }

  at(x, y, w, h) {
    const s = this.triplets, f = this.frame(w, h);
    if (!s) return null;
    let best = -1, least = 14;
    for (let k = 0; k < s.count; k++) {
      const px = Math.min(Math.max(f.px(s.sap[k]), f.x), f.x + f.size), py = Math.min(Math.max(f.py(s.san[k]), f.y), f.y + f.size);
      const d = Math.hypot(px - x, py - y);
      if (d < least) { least = d; best = k; }
    }
    return best < 0 ? null : {triplet: best};
  }

  get alt() {
    const range = this.values ? ` Values from ${number(Math.min(...this.values))} to ${number(Math.max(...this.values))}.` : "";
    return `Triplet diagram: ${plain(this.title)} over the similarity of the anchor to its positive, S_ap, and to its negative, S_an.${range}` +
      (this.triplets ? ` ${this.triplets.count} triplets.` : "");
  }
}

// Circle shows triplets on the unit circle and the steps that they take, against the gradient.
class Circle {
  constructor() {
    this.points = [];    // {angle (radians, 0 is up, clockwise), role: anchor|positive|negative|other, name, arrows: [{x, y, color, dash}]}
    this.turns = true;   // Whether the part of a step along the circle is drawn.
    this.ghosts = [];    // Angles after a step, per point, or null.
    this.length = 0.6;   // Length of an arrow of size 1, in radii.
    this.title = "";
    this.upper = false;  // Whether only the upper part of the circle is drawn, larger.
    this.echo = null;    // {anchor, sap, san}: another triplet, as rings.
  }

  frame(w, h) {
    if (this.upper) {
      const r = Math.min(w * 0.4, (h - 22) * 0.66);
      return {x: w / 2, y: h - 16 - r * 0.22, r};
    }
    const r = Math.min(w, h - 22) * 0.36;
    return {x: w / 2, y: 22 + (h - 22) / 2, r};
  }

  place(angle, w, h, away = 1) {
    const f = this.frame(w, h);
    return [f.x + f.r * away * Math.sin(angle), f.y - f.r * away * Math.cos(angle)];
  }

  angleAt(x, y, w, h) {
    const f = this.frame(w, h);
    return Math.atan2(x - f.x, f.y - y);
  }

  color(role) {
    const t = Theme.get();
    return {anchor: t.anchor, positive: t.positive, negative: t.negative}[role] || t.quiet;
  }

  draw(pen, w, h) {
    const t = Theme.get(), f = this.frame(w, h);
    if (this.upper) {
      pen.line(Array.from({length: 81}, (_, i) => this.place((i - 40) * 2.55 * Math.PI / 180, w, h)), {stroke: t.quiet, width: 1.1});
    } else {
      pen.circle(f.x, f.y, f.r, {stroke: t.quiet, width: 1.1});
    }
    pen.circle(f.x, f.y, 2, {fill: t.quiet});
    const anchor = this.points.find((p) => p.role === "anchor");
    for (const p of this.points) {
      const [x, y] = this.place(p.angle, w, h);
      if (p.role !== "other") pen.line([[f.x, f.y], [x, y]], {stroke: t.faint, width: 1});
      if (anchor && p !== anchor && p.chord !== false) {
        const [ax, ay] = this.place(anchor.angle, w, h);
        pen.line([[ax, ay], [x, y]], {stroke: this.color(p.role), width: 1.2, dash: [3, 4], alpha: 0.55});
      }
    }
    this.points.forEach((p, i) => {
      const ghost = this.ghosts[i];
      if (ghost === undefined || ghost === null) return;
      const [x, y] = this.place(ghost, w, h);
      pen.circle(x, y, 5, {stroke: this.color(p.role), width: 1.5, dash: [2, 2.5]});
    });
    for (const p of this.points) {
      const [x, y] = this.place(p.angle, w, h);
      for (const a of p.arrows || []) {
        const size = Math.hypot(a.x, a.y), k = this.length * f.r * Math.min(1, 1.6 / (size * this.length || 1)); // A very long arrow is cut.
        const color = themed(a.color) || this.color(p.role), tip = [x + a.x * k, y - a.y * k];
        if (this.turns) {
          const ux = Math.cos(p.angle), uy = -Math.sin(p.angle), along = a.x * ux + a.y * uy; // The tangent, clockwise.
          const turn = [x + along * ux * k, y - along * uy * k];
          pen.line([tip, turn], {stroke: t.turn, width: 1.1, dash: [2, 3]});
          pen.arrow(x, y, ...turn, {stroke: t.turn, width: 2.2, head: 7});
        }
        pen.arrow(x, y, ...tip, {stroke: color, width: 2.6, head: 9, dash: a.dash});
        if (a.name) {
          const l = Math.hypot(tip[0] - x, tip[1] - y) || 1;
          pen.text(a.name, tip[0] + 12 * (tip[0] - x) / l, tip[1] + 12 * (tip[1] - y) / l,
            {size: 12, align: "center", baseline: "middle", fill: color, weight: 600, halo: t.paper});
        }
      }
    }
    for (const p of this.points) {
      const [x, y] = this.place(p.angle, w, h);
      pen.circle(x, y, p.size || (p.role === "other" ? 5.5 : 7), {fill: this.color(p.role), stroke: t.paper, width: 1.6});
      if (p.name) {
        const [lx, ly] = this.place(p.angle, w, h, 1 - 21 / f.r);
        pen.text(p.name, lx, ly, {size: 13, align: "center", baseline: "middle", fill: this.color(p.role), weight: 600, halo: t.paper});
      }
    }
    if (this.echo) {
      const e = this.echo, angle = (s) => Math.acos(Math.min(Math.max(s, -1), 1));
      for (const [at, color] of [[e.anchor, t.anchor], [e.anchor + angle(e.sap), t.positive], [e.anchor - angle(e.san), t.negative]]) {
        const [x, y] = this.place(at, w, h);
        pen.circle(x, y, 11, {stroke: t.accent, width: 2.4});
        pen.circle(x, y, 4, {fill: color});
      }
    }
    pen.text(this.title, w / 2, 15, {size: 12.5, align: "center", fill: t.ink, weight: 600});
  }

  at() { return null; }

  get alt() {
    const degrees = (a) => `${Math.round(a * 180 / Math.PI)}°`;
    return `${plain(this.title) || "Unit circle"}: ` + this.points.filter((p) => p.role !== "other").map((p) => `${p.role} at ${degrees(p.angle)}`).join(", ") + ".";
  }
}

// Matrix shows M. Its color scale is given, so that colors mean the same while a slider moves.
class Matrix {
  constructor() {
    this.values = null; this.rows = 0; this.labels = null; this.n = 0; // n: rows before the proxies.
    this.range = 1;
    this.title = "M";
    this.lit = null;
  }

  frame(w, h) {
    const left = 20, top = 30, room = 70, size = Math.max(Math.min(w - left - room, h - top - 14), 40);
    return {x: left + Math.max((w - left - room - size) / 2, 0), y: top, size, cell: size / Math.max(this.rows, 1)};
  }

  draw(pen, w, h) {
    const t = Theme.get(), f = this.frame(w, h);
    if (this.values) {
      this.image = paint(this.image, this.values, this.rows, this.rows, t.diverging, -this.range, this.range, false);
      pen.image(this.image, f.x, f.y, f.size, f.size, false);
      const strip = (i, j) => { // Rows i to j are one class.
        const color = t.classes[this.labels[i] % t.classes.length], gap = Math.min(1, f.cell / 4);
        const a = i * f.cell + gap, b = (j - i) * f.cell - 2 * gap;
        pen.rect(f.x - 8, f.y + a, 5, b, {fill: color});
        pen.rect(f.x + a, f.y - 8, b, 5, {fill: color});
        if (j < this.rows && f.cell * this.rows / (j - i) < f.size * 80) {
          const at = j * f.cell;
          pen.lines([[[f.x, f.y + at], [f.x + f.size, f.y + at]], [[f.x + at, f.y], [f.x + at, f.y + f.size]]], {stroke: t.faint, width: 0.6});
        }
      };
      for (let i = 0; i < this.rows;) {
        let j = i + 1;
        while (j < this.rows && j !== this.n && this.labels[j] === this.labels[i]) j++;
        strip(i, j);
        i = j;
      }
      if (this.n < this.rows) {
        const at = this.n * f.cell;
        pen.lines([[[f.x, f.y + at], [f.x + f.size, f.y + at]], [[f.x + at, f.y], [f.x + at, f.y + f.size]]], {stroke: t.ink, width: 1.2, dash: [3, 3]});
      }
      colorBar(pen, f.x + f.size + 10, f.y, f.size, t.diverging, -this.range, this.range,
        [-this.range, -this.range / 2, 0, this.range / 2, this.range]);
    } else {
      pen.rect(f.x, f.y, f.size, f.size, {fill: t.field});
    }
    pen.rect(f.x, f.y, f.size, f.size, {stroke: t.quiet, width: 1});
    if (this.lit) {
      for (const [i, j] of this.lit.cells) {
        const grow = Math.max(2, (8 - f.cell) / 2); // A cell of few pixels gets a larger frame.
        pen.rect(f.x + j * f.cell - grow, f.y + i * f.cell - grow, f.cell + 2 * grow, f.cell + 2 * grow, {stroke: t.accent, width: 2.2});
      }
      for (const i of this.lit.points) {
        const at = (i + 0.5) * f.cell;
        pen.polygon([[f.x - 2, f.y + at], [f.x - 12, f.y + at - 5], [f.x - 12, f.y + at + 5]], {fill: t.accent});
        pen.polygon([[f.x + at, f.y - 2], [f.x + at - 5, f.y - 12], [f.x + at + 5, f.y - 12]], {fill: t.accent});
      }
    }
    pen.text(this.title, f.x + f.size / 2, 13, {size: 12.5, align: "center", fill: t.ink, weight: 600});
  }

  at(x, y, w, h) {
    const f = this.frame(w, h), i = Math.floor((y - f.y) / f.cell), j = Math.floor((x - f.x) / f.cell);
    return i >= 0 && j >= 0 && i < this.rows && j < this.rows ? {cell: [i, j]} : null;
  }

  get alt() {
    if (!this.values) return "Gradient matrix M.";
    const classes = new Set(this.labels).size, proxies = this.rows - this.n;
    return `${plain(this.title)}: gradient matrix of ${this.n} embeddings in ${classes} classes${proxies ? ` and ${proxies} proxies` : ""}; ` +
      `colors reach from −${number(this.range)}, pull, to ${number(this.range)}, push.`;
  }
}

// Swarm shows embeddings: on the circle, on a sphere that can be turned, or, in more dimensions, projected on a plane.
class Swarm {
  constructor() {
    this.F = null; this.n = 0; this.dim = 0; this.labels = null;
    this.before = [];     // Earlier positions, the oldest first.
    this.turnX = -0.42; this.turnY = 0.5;
    this.basis = null;    // Of the projection, [2][dim].
    this.title = "";
    this.triplets = null;
    this.history = null;  // {steps, sap, san} of a flow.
    this.lit = null;
    this.images = null;   // Canvases to draw the points as, or null.
    this.G = null;        // The gradient, of which the steps are drawn, or null.
    this.length = 1;      // Length of the step of a gradient of size 1, in radii.
  }

  // lightNearest lights a point with its nearest positive and its nearest negative, by their cosines.
  lightNearest(anchor) {
    const {F, dim, n, labels} = this, row = (i) => F.subarray(i * dim, (i + 1) * dim);
    const length = (v) => Math.hypot(...v) || 1, a = row(anchor), best = [-1, -1], cosines = [-Infinity, -Infinity];
    for (let i = 0; i < n; i++) {
      const kind = labels[i] === labels[anchor] ? 0 : 1, v = row(i), s = v.reduce((sum, x, d) => sum + x * a[d], 0) / (length(v) * length(a));
      if (i !== anchor && s > cosines[kind]) { best[kind] = i; cosines[kind] = s; }
    }
    const whole = best[0] >= 0 && best[1] >= 0;
    this.triplets = whole ? {anchor: [anchor], positive: [best[0]], negative: [best[1]]} : null;
    this.lit = whole ? {points: [anchor, ...best], triplets: [0], cosines} : null;
  }

  // thumbnails draws points that are images, those behind as marks, the lit ones last, and the lit three once more below.
  thumbnails(pen, w, f, at, order, color) {
    const t = Theme.get(), side = Math.min(30, 1.5 * f.r / Math.sqrt(this.n)), lit = this.lit?.points || [];
    const frames = [t.anchor, t.positive, t.negative];
    const draw = (i, x, y, size, frame, width) => {
      pen.image(this.images[i], x - size / 2, y - size / 2, size, size, true);
      pen.rect(x - size / 2, y - size / 2, size, size, {stroke: frame, width});
    };
    for (const i of [...order.filter((i) => !lit.includes(i)), ...[...lit].reverse()]) {
      const k = lit.indexOf(i);
      if (k < 0 && at[i][2] < 0) pen.mark(this.labels[i], at[i][0], at[i][1], 3.5, {fill: color(i), alpha: 0.4});
      else draw(i, at[i][0], at[i][1], k < 0 ? side : side + 8, k < 0 ? color(i) : frames[k], k < 0 ? 1.6 : 3);
    }
    const size = f.strip - 18, names = ["anchor", "nearest positive", "nearest negative"];
    lit.forEach((i, k) => {
      const x = w * (k + 0.5) / 3;
      draw(i, x, f.bottom - 16 - size / 2, size, frames[k], 2);
      const name = w < 400 ? names[k].split(" ").pop() : names[k], cosine = k && number(this.lit.cosines[k - 1], 2); // A narrow picture has no room for more.
      pen.text(!k ? name : w < 250 ? cosine : `${name} ${cosine}`, x, f.bottom - 3, {size: 11, align: "center", fill: frames[k]});
    });
  }

  // look sets the projection for embeddings of more than three dimensions: their two main directions.
  look() {
    const from = this.basis; // To go on from, so that the picture does not turn over.
    this.basis = null; this.offset = 0;
    if ((this.dim === 2 || this.dim === 3) || !this.F) return;
    const {F, n, dim} = this, mean = new Float64Array(dim);
    for (let i = 0; i < n; i++) for (let d = 0; d < dim; d++) mean[d] += F[i * dim + d] / n;
    this.basis = [];
    for (let k = 0; k < 2; k++) {
      let v = from?.[k].length === dim ? from[k] : Float64Array.from({length: dim}, (_, d) => Math.sin(1 + d * (k + 1.7))); // Any start that is not at right angles.
      for (let round = 0; round < 60; round++) { // Power iteration on the covariance.
        const next = new Float64Array(dim);
        for (let i = 0; i < n; i++) {
          let along = 0;
          for (let d = 0; d < dim; d++) along += (F[i * dim + d] - mean[d]) * v[d];
          for (let d = 0; d < dim; d++) next[d] += along * (F[i * dim + d] - mean[d]);
        }
        for (const b of this.basis) {
          let along = 0;
          for (let d = 0; d < dim; d++) along += next[d] * b[d];
          for (let d = 0; d < dim; d++) next[d] -= along * b[d];
        }
        const length = Math.hypot(...next);
        if (!(length > 0)) { v.fill(0); break; } // No direction is left, as in one dimension.
        v = next.map((x) => x / length);
      }
      this.basis.push(v);
    }
    this.mean = this.basis.map((b) => b.reduce((s, x, d) => s + x * mean[d], 0));
    this.reach = 0.2;
    for (let i = 0; i < n; i++) this.reach = Math.max(this.reach, ...this.basis.map((b, k) => Math.abs(this.along(F, i, b) - this.mean[k])));
  }

  along(F, i, b) {
    let s = 0;
    for (let d = 0; d < this.dim; d++) s += F[i * this.dim + d] * b[d];
    return s;
  }

  frame(w, h) {
    const strip = Math.min(64, h * 0.2), room = h - strip - 22; // The strip's room is kept, so that nothing jumps when a flow begins.
    return {x: w / 2, y: 22 + room / 2, r: Math.min(w, room) / 2 - 14, strip, bottom: h};
  }

  // place is where point i is: x and y in the picture, and its depth from −1, behind, to 1.
  place(F, i, f) {
    if (this.dim === 2) return [f.x + f.r * F[2 * i], f.y - f.r * F[2 * i + 1], 1];
    if (this.dim === 3) {
      const x = F[3 * i], y = F[3 * i + 1], z = F[3 * i + 2];
      const cy = Math.cos(this.turnY), sy = Math.sin(this.turnY), cx = Math.cos(this.turnX), sx = Math.sin(this.turnX);
      const x1 = x * cy + z * sy, z1 = -x * sy + z * cy, y1 = y * cx - z1 * sx, z2 = y * sx + z1 * cx;
      return [f.x + f.r * x1, f.y - f.r * y1, z2];
    }
    if (!this.basis || this.basis[0].length !== this.dim) this.look();
    const [x, y] = this.basis.map((b, k) => (this.along(F, i, b) - this.mean[k]) / (this.reach * 1.15));
    return [f.x + f.r * Math.min(Math.max(x, -1.1), 1.1), f.y - f.r * Math.min(Math.max(y, -1.1), 1.1), 1];
  }

  draw(pen, w, h) {
    const t = Theme.get(), f = this.frame(w, h);
    if (this.dim === 2) pen.circle(f.x, f.y, f.r, {stroke: t.quiet, width: 1.1});
    else if (this.dim === 3) this.sphere(pen, f);
    else if (this.dim) pen.rect(f.x - f.r, f.y - f.r, 2 * f.r, 2 * f.r, {stroke: t.faint, width: 1});
    pen.text(this.title, w / 2, 14, {size: 12.5, align: "center", fill: t.ink, weight: 600});
    if (!this.F) return;
    const color = (i) => t.classes[this.labels[i] % t.classes.length];
    const faded = (z) => z < 0 ? 0.32 : 0.95;
    if (this.before.length) {
      for (let i = 0; i < this.n; i++) {
        const path = [...this.before, this.F].map((F) => this.place(F, i, f)), half = path.length >> 1;
        const fade = faded(path[path.length - 1][2]);
        pen.line(path.slice(0, half + 1).map((p) => p.slice(0, 2)), {stroke: color(i), width: 1, alpha: 0.22 * fade});
        pen.line(path.slice(half).map((p) => p.slice(0, 2)), {stroke: color(i), width: 1.5, alpha: 0.5 * fade});
      }
    }
    const at = Array.from({length: this.n}, (_, i) => this.place(this.F, i, f));
    const lit = this.lit;
    if (lit && this.triplets) {
      for (const k of lit.triplets) {
        const s = this.triplets, [a, p, n] = [s.anchor[k], s.positive[k], s.negative[k]];
        if (a >= this.n || p >= this.n || n >= this.n) continue;
        pen.line([at[a].slice(0, 2), at[p].slice(0, 2)], {stroke: t.positive, width: 2});
        pen.line([at[a].slice(0, 2), at[n].slice(0, 2)], {stroke: t.negative, width: 2, dash: [5, 4]});
      }
    }
    const order = [...at.keys()].sort((i, j) => at[i][2] - at[j][2]), size = this.n > 150 ? 3.2 : this.n > 70 ? 4.2 : 5.4;
    if (this.images) this.thumbnails(pen, w, f, at, order, color);
    else for (const i of order) {
      const strong = lit && lit.points.includes(i);
      if (strong) pen.circle(at[i][0], at[i][1], size + 5, {stroke: t.accent, width: 2.2});
      pen.mark(this.labels[i], at[i][0], at[i][1], size * (at[i][2] < 0 ? 0.82 : 1),
        {fill: color(i), stroke: t.paper, width: 1, alpha: lit && !strong ? 0.45 * faded(at[i][2]) : faded(at[i][2])});
    }
    if (this.G) this.steps(pen, f, at);
    if (this.history?.steps.length) this.strip(pen, w, f);
  }

  // steps draws the way that each point goes, against its gradient.
  steps(pen, f, at) {
    const t = Theme.get(), tips = this.F.slice(0, this.n * this.dim).map((x, i) => x - this.length * this.G[i]);
    for (let i = 0; i < this.n; i++) {
      const strong = this.lit?.points.includes(i), [x, y] = this.place(tips, i, f);
      if (Math.hypot(x - at[i][0], y - at[i][1]) < 2) continue;
      pen.arrow(at[i][0], at[i][1], x, y, {stroke: strong ? t.accent : t.ink, width: strong ? 2.6 : 1.2, head: strong ? 9 : 6, alpha: strong ? 1 : (this.lit ? 0.25 : 0.7) * (at[i][2] < 0 ? 0.5 : 1)});
    }
  }

  sphere(pen, f) {
    const t = Theme.get();
    pen.circle(f.x, f.y, f.r, {stroke: t.quiet, width: 1.1});
    for (const latitude of [-Math.PI / 4, 0, Math.PI / 4]) { // Circles of latitude, their back parts fainter.
      let front = [], back = [];
      const parts = {front: [], back: []};
      for (let k = 0; k <= 72; k++) {
        const a = k * Math.PI / 36, c = Math.cos(latitude);
        const [x, y, z] = this.place([c * Math.cos(a), Math.sin(latitude), c * Math.sin(a)], 0, f);
        if (z >= 0) { front.push([x, y]); if (back.length) { parts.back.push([...back, [x, y]]); back = []; } }
        else { back.push([x, y]); if (front.length) { parts.front.push([...front, [x, y]]); front = []; } }
      }
      if (front.length) parts.front.push(front);
      if (back.length) parts.back.push(back);
      pen.lines(parts.back, {stroke: t.faint, width: 0.8, alpha: 0.7});
      pen.lines(parts.front, {stroke: t.faint, width: 1.1});
    }
  }

  // strip draws the mean similarities of a flow's triplets over its steps, under the embeddings.
  strip(pen, w, f) {
    const t = Theme.get(), s = this.history, x0 = 34, x1 = w - 66, y1 = f.bottom - 14, y0 = f.bottom - f.strip + 6;
    const last = Math.max(s.steps[s.steps.length - 1] || 0, 20);
    const low = Math.min(0, ...s.san, ...s.sap), py = (v) => y1 - (y1 - y0) * (v - low) / (1 - low);
    pen.line([[x0, y0], [x0, y1], [x1, y1]], {stroke: t.faint, width: 1});
    for (const v of [low < -0.01 ? low : 0, 1]) pen.text(number(v, Number.isInteger(v) ? 0 : 1), x0 - 5, py(v), {size: 10, align: "right", baseline: "middle", fill: t.quiet});
    pen.text(`${last} steps`, x1, y1 + 11, {size: 10, align: "right", fill: t.quiet});
    const ends = [["sap", "S_{ap}", t.positive, []], ["san", "S_{an}", t.negative, [4, 3]]].map(([key, name, color, dash]) => {
      pen.line(s.steps.map((step, i) => [x0 + (x1 - x0) * step / last, py(s[key][i])]), {stroke: color, width: 1.8, dash});
      return {y: py(s[key][s[key].length - 1]), name: `${name} ${number(s[key][s[key].length - 1], 2)}`, color};
    });
    if (Math.abs(ends[0].y - ends[1].y) < 12) { // Labels do not overlap.
      const middle = (ends[0].y + ends[1].y) / 2, first = ends[0].y <= ends[1].y ? 0 : 1;
      ends[first].y = middle - 6.5; ends[1 - first].y = middle + 6.5;
    }
    for (const e of ends) pen.text(e.name, x1 + 5, e.y, {size: 10.5, baseline: "middle", fill: e.color});
  }

  at(x, y, w, h) {
    if (!this.F) return null;
    const f = this.frame(w, h);
    let best = -1, least = 16;
    for (let i = 0; i < this.n; i++) {
      const [px, py, z] = this.place(this.F, i, f), d = Math.hypot(px - x, py - y) + (z < 0 ? 4 : 0);
      if (d < least) { least = d; best = i; }
    }
    return best < 0 ? null : {point: best};
  }

  get alt() {
    if (!this.F) return "No embeddings yet.";
    const where = this.dim === 2 ? "on the unit circle" : this.dim === 3 ? "on the unit sphere" : `in ${this.dim} dimensions, projected on a plane`;
    const h = this.history?.steps.length ? this.history : null, last = h && h.steps.length - 1;
    const near = this.images && this.lit ? ` The image in front has S_ap ${number(this.lit.cosines[0], 2)} and S_an ${number(this.lit.cosines[1], 2)}.` : "";
    return `${this.n} embeddings of ${new Set(this.labels || []).size} classes ${where}${this.images ? ", drawn as their images" : ""}.${near}` +
      (h ? ` After ${h.steps[last]} steps the mean S_ap is ${number(h.sap[last], 2)} and the mean S_an ${number(h.san[last], 2)}.` : "");
  }
}

// Curves shows functions of a similarity.
class Curves {
  constructor() {
    this.series = [];     // {x, y, color, name, dash, dots, width}
    this.xRange = [0, 1]; this.yRange = [0, 1];
    this.xTitle = "S"; this.title = "";
    this.band = null;     // {x, low, high}: a band between two functions.
    this.marker = null;   // A value of x.
  }

  frame(w, h) {
    const x = 40, y = 26, right = 16, bottom = 40;
    const width = w - x - right, height = h - y - bottom, [x0, x1] = this.xRange, [y0, y1] = this.yRange;
    return {x, y, width, height, px: (v) => x + width * (v - x0) / (x1 - x0), py: (v) => y + height * (1 - (v - y0) / (y1 - y0)),
      sx: (p) => x0 + (x1 - x0) * (p - x) / width};
  }

  draw(pen, w, h) {
    const t = Theme.get(), f = this.frame(w, h);
    const ticks = (from, to) => { const s = roundStep((to - from) / 4), out = []; for (let v = Math.ceil(from / s - 1e-9) * s; v <= to + 1e-9; v += s) out.push(v); return out; };
    for (const v of ticks(...this.yRange)) {
      pen.line([[f.x, f.py(v)], [f.x + f.width, f.py(v)]], {stroke: t.faint, width: 0.8});
      pen.text(number(v), f.x - 7, f.py(v), {size: 10.5, align: "right", baseline: "middle", fill: t.quiet});
    }
    for (const v of ticks(...this.xRange)) {
      pen.line([[f.px(v), f.y + f.height], [f.px(v), f.y + f.height + 4]], {stroke: t.quiet, width: 1});
      pen.text(number(v), f.px(v), f.y + f.height + 6, {size: 10.5, align: "center", baseline: "top", fill: t.quiet});
    }
    pen.line([[f.x, f.y + f.height], [f.x + f.width, f.y + f.height]], {stroke: t.quiet, width: 1});
    pen.text(this.xTitle, f.x + f.width / 2, f.y + f.height + 33, {size: 12.5, align: "center", fill: t.ink});
    pen.text(this.title, f.x + f.width / 2, 14, {size: 12.5, align: "center", fill: t.ink, weight: 600});
    const clipped = () => {
      if (this.band) {
        const {x, low, high} = this.band;
        pen.polygon([...x.map((v, i) => [f.px(v), f.py(low[i])]), ...x.map((v, i) => [f.px(v), f.py(high[i])]).reverse()], {fill: t.accent, alpha: 0.14});
      }
      if (this.marker !== null) {
        pen.line([[f.px(this.marker), f.y], [f.px(this.marker), f.y + f.height]], {stroke: t.accent, width: 1.4, dash: [4, 3]});
      }
      for (const s of this.series) {
        const points = Array.from(s.x, (v, i) => [f.px(v), f.py(s.y[i])]).filter((p) => p.every(Number.isFinite));
        if (s.dots) for (const p of points) pen.circle(...p, 2.6, {fill: themed(s.color)});
        else pen.line(points, {stroke: themed(s.color), width: s.width || 2, dash: s.dash});
        if (this.marker !== null && !s.dots) {
          const i = nearest(s.x, this.marker);
          pen.circle(f.px(this.marker), f.py(s.y[i]), 4.5, {fill: themed(s.color), stroke: t.paper, width: 1.5});
        }
      }
    };
    pen.clip(f.x, f.y - 6, f.width + 4, f.height + 8, clipped);
    this.labels(pen, f);
  }

  // labels names the curves in the corner with room, or beside a point of each.
  labels(pen, f) {
    const t = Theme.get(), taken = [];
    for (const s of this.series) {
      if (!s.name) continue;
      const width = pen.textWidth(s.name, 12, 600);
      let best = null, least = Infinity;
      for (let i = 0; i < s.x.length; i++) {
        for (const side of [-1, 1]) {
          const x = f.px(s.x[i]), y = f.py(s.y[i]) + side * 12;
          const x0 = Math.min(Math.max(x - width / 2, f.x + 4), f.x + f.width - width);
          if (y < f.y + 6 || y > f.y + f.height - 7) continue;
          let cost = Math.abs(i / s.x.length - (s.at ?? 0.7)) * 3;
          for (const o of this.series) {
            for (let k = 0; k < o.x.length; k++) {
              const ox = f.px(o.x[k]), oy = f.py(o.y[k]);
              if (ox > x0 - 3 && ox < x0 + width + 3 && Math.abs(oy - y) < 8) cost += 1.5;
            }
          }
          for (const b of taken) if (Math.abs(b.y - y) < 15 && x0 < b.x1 && x0 + width > b.x0) cost += 40;
          if (cost < least) { least = cost; best = {x0, x1: x0 + width, y}; }
        }
      }
      if (!best) continue;
      taken.push(best);
      pen.text(s.name, best.x0, best.y, {size: 12, baseline: "middle", fill: themed(s.color), weight: 600, halo: t.paper});
    }
  }

  at() { return null; }

  get alt() {
    return `${plain(this.title)}: ${!this.series.length ? "nothing yet" : this.series.filter((s) => s.name).map((s) => `${plain(s.name)} from ${number(s.y[0])} to ${number(s.y[s.y.length - 1])}`).join("; ")}, ` +
      `over ${plain(this.xTitle)} from ${number(this.xRange[0])} to ${number(this.xRange[1])}.`;
  }
}

function nearest(sorted, x) {
  let best = 0;
  for (let i = 1; i < sorted.length; i++) if (Math.abs(sorted[i] - x) < Math.abs(sorted[best] - x)) best = i;
  return best;
}

// Bars compares a few numbers, in pairs.
class Bars {
  constructor() { this.groups = []; this.high = 1; this.title = ""; } // groups: {name, bars: [{name, value, color}]}

  draw(pen, w, h) {
    const t = Theme.get(), x = 12, width = w - 24, top = 30, row = (h - top - 10) / Math.max(this.groups.reduce((s, g) => s + g.bars.length + 0.9, 0), 1);
    pen.text(this.title, w / 2, 14, {size: 12.5, align: "center", fill: t.ink, weight: 600});
    const label = 10 + Math.max(0, ...this.groups.flatMap((g) => g.bars.map((b) => pen.textWidth(b.name, 12)))), room = width - label - 44;
    let y = top;
    for (const g of this.groups) {
      pen.text(g.name, x, y + row * 0.5, {size: 12, fill: t.quiet, baseline: "middle"});
      y += row * 0.9;
      for (const b of g.bars) {
        pen.text(b.name, x + 4, y + row / 2, {size: 12, baseline: "middle", fill: t.ink});
        pen.rect(x + label, y + row * 0.16, Math.max(room * Math.min(Math.max(b.value, 0) / this.high, 1), 0), row * 0.68, {fill: themed(b.color)});
        pen.text(number(b.value, 3), x + label + Math.max(room * Math.min(Math.max(b.value, 0) / this.high, 1), 0) + 6, y + row / 2,
          {size: 12, baseline: "middle", fill: t.ink});
        y += row;
      }
    }
  }

  at() { return null; }

  get alt() { return `${plain(this.title)}: ` + this.groups.map((g) => `${plain(g.name)}: ${g.bars.map((b) => `${plain(b.name)} ${number(b.value, 3)}`).join(", ")}`).join("; ") + "."; }
}
