"use strict";
// A pen draws the few shapes that the pictures consist of, on a canvas or as SVG. What is saved is what is seen.

const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", "Liberation Sans", sans-serif';

const measuring = document.createElement("canvas").getContext("2d");

const leastSize = 10; // No text is smaller.

// runs splits "S_{ap}" into the parts of a line of text: their text, scale, and shift down in units of the size.
function runs(text) {
  return text.split(/([_^]\{[^}]*\})/).filter(Boolean).map((part) =>
    part.startsWith("_{") ? [part.slice(2, -1), 0.74, 0.22] :
      part.startsWith("^{") ? [part.slice(2, -1), 0.74, -0.36] : [part, 1, 0]);
}

const plain = (text) => text.replace(/[_^]\{([^}]*)\}/g, "_$1");

class Pen {
  get font() { return FONT; }

  // Two decimals of a pixel are enough, and keep a file small.
  n(x) { return String(Math.round(x * 100) / 100); }

  // textWidth is the width of a line of text with its subscripts.
  textWidth(text, size, weight = 400) {
    let width = 0;
    for (const [part, scale] of runs(text)) {
      measuring.font = `${weight} ${Math.max(size * scale, leastSize)}px ${this.font}`;
      width += measuring.measureText(part).width;
    }
    return width;
  }

  text(text, x, y, {size = 12, align = "left", baseline = "alphabetic", fill = "#000", weight = 400, turn = 0, halo = ""} = {}) {
    const width = this.textWidth(text, size, weight);
    let at = align === "center" ? -width / 2 : align === "right" ? -width : 0;
    const down = baseline === "middle" ? size * 0.35 : baseline === "top" ? size * 0.8 : 0;
    const parts = [];
    for (const [part, scale, shift] of runs(text)) {
      const own = Math.max(size * scale, leastSize);
      measuring.font = `${weight} ${own}px ${this.font}`;
      parts.push({part, size: own, x: at, y: down + size * shift});
      at += measuring.measureText(part).width;
    }
    this.words(parts, x, y, turn, {fill, weight, halo});
  }

  polygon(points, style) { this.line(points, {...style, close: true}); }

  // arrow draws a line with a head. Short arrows get a small head.
  arrow(x1, y1, x2, y2, {stroke, width = 2, head = 8, dash, alpha} = {}) {
    const length = Math.hypot(x2 - x1, y2 - y1);
    if (!(length > 0.5)) return;
    const h = Math.min(head, length * 0.6), ux = (x2 - x1) / length, uy = (y2 - y1) / length;
    this.line([[x1, y1], [x2 - ux * h * 0.7, y2 - uy * h * 0.7]], {stroke, width, dash, alpha});
    this.polygon([[x2, y2], [x2 - ux * h - uy * h * 0.42, y2 - uy * h + ux * h * 0.42],
      [x2 - ux * h + uy * h * 0.42, y2 - uy * h - ux * h * 0.42]], {fill: stroke, alpha});
  }

  // mark draws the k-th of the shapes by which classes differ beside their colors.
  mark(k, x, y, r, style) {
    const around = (n, from, size = r) => Array.from({length: n}, (_, i) =>
      [x + size * Math.sin(from + 2 * Math.PI * i / n), y - size * Math.cos(from + 2 * Math.PI * i / n)]);
    switch (k % 5) {
      case 0: return this.circle(x, y, r * 0.92, style);
      case 1: return this.polygon(around(4, Math.PI / 4, r * 1.15), style);
      case 2: return this.polygon(around(3, 0, r * 1.25), style);
      case 3: return this.polygon(around(4, 0, r * 1.2), style);
      default: return this.polygon(around(3, Math.PI, r * 1.25), style);
    }
  }
}

class CanvasPen extends Pen {
  // unit is the size of the picture's unit in CSS pixels; the canvas has the screen's pixels.
  constructor(canvas, width, height, unit = 1) {
    super();
    const scale = Math.min(globalThis.devicePixelRatio || 1, 3) * unit;
    const w = Math.round(width * scale), h = Math.round(height * scale);
    if (canvas.width !== w || canvas.height !== h) { canvas.width = w; canvas.height = h; }
    this.c = canvas.getContext("2d");
    this.c.setTransform(scale, 0, 0, scale, 0, 0);
    this.c.clearRect(0, 0, width, height);
    this.c.lineJoin = this.c.lineCap = "round";
  }

  finish({fill, stroke, width = 1, dash = [], alpha = 1}) {
    this.c.globalAlpha = alpha;
    if (fill) { this.c.fillStyle = fill; this.c.fill(); }
    if (stroke) {
      this.c.strokeStyle = stroke; this.c.lineWidth = width; this.c.setLineDash(dash);
      this.c.stroke();
    }
    this.c.globalAlpha = 1;
  }

  line(points, style) { this.lines([points], style); }

  lines(all, style) {
    this.c.beginPath();
    for (const points of all) {
      points.forEach(([x, y], i) => i ? this.c.lineTo(x, y) : this.c.moveTo(x, y));
      if (style.close) this.c.closePath();
    }
    this.finish(style);
  }

  circle(x, y, r, style) { this.c.beginPath(); this.c.arc(x, y, Math.max(r, 0), 0, 2 * Math.PI); this.finish(style); }
  rect(x, y, w, h, style) { this.c.beginPath(); this.c.rect(x, y, w, h); this.finish(style); }

  image(image, x, y, w, h, smooth) {
    this.c.imageSmoothingEnabled = smooth;
    this.c.imageSmoothingQuality = "high";
    this.c.drawImage(image, x, y, w, h);
  }

  clip(x, y, w, h, draw) {
    this.c.save();
    this.c.beginPath(); this.c.rect(x, y, w, h); this.c.clip();
    draw();
    this.c.restore();
  }

  words(parts, x, y, turn, {fill, weight, halo}) {
    this.c.save();
    this.c.translate(x, y);
    this.c.rotate(turn);
    this.c.textBaseline = "alphabetic";
    this.c.setLineDash([]);
    for (const p of parts) {
      this.c.font = `${weight} ${p.size}px ${FONT}`;
      if (halo) { this.c.strokeStyle = halo; this.c.lineWidth = 3.5; this.c.strokeText(p.part, p.x, p.y); }
      this.c.fillStyle = fill;
      this.c.fillText(p.part, p.x, p.y);
    }
    this.c.restore();
  }
}

class SvgPen extends Pen {
  constructor(width, height, background, title) {
    super();
    this.width = width; this.height = height; this.out = []; this.clips = 0;
    this.title = title;
    this.rect(0, 0, width, height, {fill: background});
  }

  escape(s) { return s.replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`); }

  style({fill, stroke, width = 1, dash = [], alpha = 1}) {
    return ` fill="${fill || "none"}"` +
      (stroke ? ` stroke="${stroke}" stroke-width="${this.n(width)}" stroke-linejoin="round" stroke-linecap="round"` : "") +
      (dash.length ? ` stroke-dasharray="${dash.join(" ")}"` : "") + (alpha < 1 ? ` opacity="${this.n(alpha)}"` : "");
  }

  line(points, style) { this.lines([points], style); }

  lines(all, style) {
    const d = all.map((points) => "M" + points.map(([x, y]) => `${this.n(x)} ${this.n(y)}`).join("L") +
      (style.close ? "Z" : "")).join("");
    if (d) this.out.push(`<path d="${d}"${this.style(style)}/>`);
  }

  circle(x, y, r, style) {
    this.out.push(`<circle cx="${this.n(x)}" cy="${this.n(y)}" r="${this.n(Math.max(r, 0))}"${this.style(style)}/>`);
  }

  rect(x, y, w, h, style) {
    this.out.push(`<rect x="${this.n(x)}" y="${this.n(y)}" width="${this.n(w)}" height="${this.n(h)}"${this.style(style)}/>`);
  }

  image(image, x, y, w, h, smooth) {
    this.out.push(`<image x="${this.n(x)}" y="${this.n(y)}" width="${this.n(w)}" height="${this.n(h)}" ` +
      `preserveAspectRatio="none"${smooth ? "" : ' style="image-rendering:pixelated"'} href="${image.toDataURL("image/png")}"/>`);
  }

  clip(x, y, w, h, draw) {
    const id = `clip${++this.clips}`;
    this.out.push(`<clipPath id="${id}"><rect x="${this.n(x)}" y="${this.n(y)}" width="${this.n(w)}" height="${this.n(h)}"/></clipPath>`,
      `<g clip-path="url(#${id})">`);
    draw();
    this.out.push("</g>");
  }

  words(parts, x, y, turn, {fill, weight, halo}) {
    const spans = parts.map((p) => `<tspan x="${this.n(p.x)}" y="${this.n(p.y)}" font-size="${this.n(p.size)}">${this.escape(p.part)}</tspan>`);
    this.out.push(`<text transform="translate(${this.n(x)} ${this.n(y)})${turn ? ` rotate(${this.n(turn * 180 / Math.PI)})` : ""}" ` +
      `fill="${fill}" font-weight="${weight}"${halo ? ` stroke="${halo}" stroke-width="3.5" paint-order="stroke" stroke-linejoin="round"` : ""}>` +
      `${spans.join("")}</text>`);
  }

  toString() {
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${this.n(this.width)}" height="${this.n(this.height)}" ` +
      `viewBox="0 0 ${this.n(this.width)} ${this.n(this.height)}" font-family="${this.escape(FONT)}">` +
      `<title>${this.escape(this.title)}</title>\n${this.out.join("\n")}\n</svg>\n`;
  }
}

// Theme reads the style sheet's colors; they change with the dark theme.
const Theme = {
  colors: null,
  get() {
    if (this.colors) return this.colors;
    const style = getComputedStyle(document.documentElement);
    const names = ["ink", "quiet", "faint", "paper", "field", "anchor", "positive", "negative", "turn", "accent"];
    this.colors = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
    this.colors.dark = style.getPropertyValue("--dark").trim() === "1";
    this.colors.classes = style.getPropertyValue("--classes").trim().split(/\s+/);
    for (const name of ["pull", "push", "weight", "diverging"]) {
      this.colors[name] = style.getPropertyValue(`--scale-${name}`).trim().split(/\s+/).map((hex) =>
        [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)));
    }
    return this.colors;
  },
  forget() { this.colors = null; },
};

// shade is the color of x, from 0 to 1, on a scale of colors.
function shade(scale, x) {
  if (!Number.isFinite(x)) return [128, 128, 128];
  const at = Math.min(Math.max(x, 0), 1) * (scale.length - 1), i = Math.min(Math.floor(at), scale.length - 2), f = at - i;
  return [0, 1, 2].map((k) => scale[i][k] * (1 - f) + scale[i + 1][k] * f);
}

// In hexadecimal, which programs read that know SVG but not all of CSS.
const rgb = (c) => "#" + c.map((v) => Math.round(v).toString(16).padStart(2, "0")).join("");

// paint makes an image of values, row by row. A canvas is kept for the next call with the same size.
function paint(kept, values, columns, rows, scale, low, high, upward) {
  const canvas = kept && kept.width === columns && kept.height === rows ? kept : document.createElement("canvas");
  if (canvas !== kept) { canvas.width = columns; canvas.height = rows; }
  const c = canvas.getContext("2d"), image = c.createImageData(columns, rows);
  const table = Array.from({length: 256}, (_, i) => shade(scale, i / 255));
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      const x = (values[row * columns + column] - low) / (high - low);
      const color = Number.isFinite(x) ? table[Math.round(Math.min(Math.max(x, 0), 1) * 255)] : [128, 128, 128];
      const at = 4 * ((upward ? rows - 1 - row : row) * columns + column);
      image.data[at] = color[0]; image.data[at + 1] = color[1]; image.data[at + 2] = color[2]; image.data[at + 3] = 255;
    }
  }
  c.putImageData(image, 0, 0);
  return canvas;
}

// roundStep is 1, 2 or 5 times a power of ten, near a rough step.
function roundStep(rough) {
  const power = 10 ** Math.floor(Math.log10(rough)), x = rough / power;
  return power * (x < 1.5 ? 1 : x < 3.5 ? 2 : x < 7.5 ? 5 : 10);
}

// number writes a number as a reader expects it: a true minus sign, no trailing zeros unless digits are asked for.
function number(x, digits) {
  if (!Number.isFinite(x)) return "—";
  let text = digits === undefined ? String(Number(x.toPrecision(3))) : x.toFixed(digits);
  if (Number(text) === 0) text = text.replace("-", "");
  if (text.includes("e")) {
    const [mantissa, power] = text.split("e");
    text = `${mantissa}·10${[...String(Number(power))].map((d) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[d] || "⁻").join("")}`;
  }
  return text.replace("-", "−");
}
