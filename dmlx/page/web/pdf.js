"use strict";
// A pen that writes a PDF file: shapes as vectors, text as text in standard fonts, which every viewer has, and what is painted as images.

// Characters that Windows' Latin encoding has elsewhere, and those of the standard font Symbol.
const LATIN = {"…": "\x85", "‘": "\x91", "’": "\x92", "“": "\x93", "”": "\x94", "–": "\x96", "—": "\x97"};
const SYMBOL = {"−": "-", "α": "a", "β": "b", "ε": "e", "λ": "l", "τ": "t", "′": "\xa2", "≤": "\xa3", "∞": "\xa5", "→": "\xae", "≥": "\xb3", "∂": "\xb6", "√": "\xd6"};
const RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹⁻";

class PdfPen extends Pen {
  constructor(width, height, background, title) {
    super();
    Object.assign(this, {width, height, title, out: [], alphas: new Set(), images: new Map()});
    this.rect(0, 0, width, height, {fill: background});
  }

  get font() { return 'Helvetica, Arial, "Liberation Sans", "Nimbus Sans", sans-serif'; } // They have the widths of the standard font.

  color(hex) { return [1, 3, 5].map((i) => (parseInt(hex.slice(i, i + 2), 16) / 255).toFixed(3)).join(" "); }

  shape(path, {fill, stroke, width = 1, dash = [], alpha = 1}) {
    if (!path || !(fill || stroke)) return;
    if (alpha < 1) this.alphas.add(this.n(alpha));
    this.out.push(`q ${alpha < 1 ? `/A${this.n(alpha)} gs ` : ""}${fill ? `${this.color(fill)} rg ` : ""}` +
      `${stroke ? `${this.color(stroke)} RG ${this.n(width)} w [${dash.join(" ")}] 0 d ` : ""}${path} ${fill && stroke ? "B" : fill ? "f" : "S"} Q`);
  }

  line(points, style) { this.lines([points], style); }

  lines(all, style) {
    this.shape(all.map((points) => points.map(([x, y], i) => `${this.n(x)} ${this.n(y)} ${i ? "l" : "m"}`).join(" ") + (style.close ? " h" : "")).join(" "), style);
  }

  circle(x, y, r, style) {
    const k = 0.5523, at = (...v) => v.map(([i, j]) => `${this.n(x + r * i)} ${this.n(y + r * j)}`).join(" ");
    this.shape([[1, 0], [0, 1], [-1, 0], [0, -1]].reduce((path, [i, j]) => `${path} ${at([i - k * j, j + k * i], [k * i - j, k * j + i], [-j, i])} c`, `${at([1, 0])} m`) + " h", style);
  }

  rect(x, y, w, h, style) { this.shape(`${[x, y, w, h].map(this.n).join(" ")} re`, style); }

  image(image, x, y, w, h, smooth) {
    if (!this.images.has(image)) this.images.set(image, [image.getContext("2d").getImageData(0, 0, image.width, image.height), Boolean(smooth)]);
    this.out.push(`q ${this.n(w)} 0 0 ${this.n(-h)} ${this.n(x)} ${this.n(y + h)} cm /I${[...this.images.keys()].indexOf(image)} Do Q`);
  }

  clip(x, y, w, h, draw) {
    this.out.push(`q ${[x, y, w, h].map(this.n).join(" ")} re W n`);
    draw();
    this.out.push("Q");
  }

  // glyphs splits a text into what has one font: [font, bytes, whether it is raised].
  glyphs(text, weight) {
    const out = [];
    for (const c of text) {
      const raised = RAISED.indexOf(c), is = raised < 0 ? c : "0123456789−"[raised], font = SYMBOL[is] ? "S" : weight > 500 ? "B" : "H", last = out.at(-1);
      const byte = (SYMBOL[is] || LATIN[is] || (is < "\u0100" ? is : "?")).replace(/[()\\]/, "\\$&");
      if (last?.[0] === font && last[2] === raised >= 0) last[1] += byte;
      else out.push([font, byte, raised >= 0]);
    }
    return out;
  }

  words(parts, x, y, turn, {fill, weight, halo}) {
    const [c, s] = [Math.cos(turn), Math.sin(turn)];
    const text = parts.map((p) => `${[c, s, s, -c, x + p.x * c - p.y * s, y + p.x * s + p.y * c].map(this.n).join(" ")} Tm ` +
      this.glyphs(p.part, weight).map(([font, bytes, raised]) => `/${font} ${this.n(p.size * (raised ? 0.7 : 1))} Tf ${raised ? this.n(p.size * 0.35) : 0} Ts (${bytes}) Tj`).join(" ")).join(" ");
    if (halo) this.out.push(`q BT 1 Tr ${this.color(halo)} RG 3.5 w ${text} ET Q`);
    this.out.push(`BT 0 Tr ${this.color(fill)} rg ${text} ET`);
  }

  async file() {
    const bytes = (text) => Uint8Array.from(text, (c) => c.charCodeAt(0)), objects = [], dictionary = (of) => `<<${of.join(" ")}>>`;
    const stream = async (about, data) => {
      const packed = new Uint8Array(await new Response(new Blob([data]).stream().pipeThrough(new CompressionStream("deflate"))).arrayBuffer());
      let text = "";
      for (const b of packed) text += String.fromCharCode(b);
      return `<<${about} /Filter /FlateDecode /Length ${packed.length}>>\nstream\n${text}\nendstream`;
    };
    const point = 0.75, size = [this.width, this.height].map((v) => this.n(v * point)), font = (name, encoding) => `<</Type /Font /Subtype /Type1 /BaseFont /${name}${encoding}>>`, latin = " /Encoding /WinAnsiEncoding";
    objects.push("<</Type /Catalog /Pages 2 0 R /ViewerPreferences <</DisplayDocTitle true>>>>", "<</Type /Pages /Kids [3 0 R] /Count 1>>",
      `<</Type /Page /Parent 2 0 R /MediaBox [0 0 ${size.join(" ")}] /Contents 4 0 R /Resources <</Font <</H 5 0 R /B 6 0 R /S 7 0 R>> ` +
        `/ExtGState ${dictionary([...this.alphas].map((a) => `/A${a} <</ca ${a} /CA ${a}>>`))} /XObject ${dictionary([...this.images].map((_, i) => `/I${i} ${9 + i} 0 R`))}>>>>`,
      await stream("", bytes(`${point} 0 0 -${point} 0 ${size[1]} cm 1 j 1 J\n${this.out.join("\n")}\n`)),
      font("Helvetica", latin), font("Helvetica-Bold", latin), font("Symbol", ""),
      `<</Title <FEFF${Array.from(this.title, (c) => c.charCodeAt(0).toString(16).padStart(4, "0")).join("")}> /Producer (dmlx)>>`);
    for (const [{width, height, data}, smooth] of this.images.values()) {
      objects.push(await stream(`/Type /XObject /Subtype /Image /Width ${width} /Height ${height} /ColorSpace /DeviceRGB /BitsPerComponent 8 /Interpolate ${smooth}`, data.filter((_, i) => i % 4 < 3)));
    }
    let out = "%PDF-1.4\n%\xe2\xe3\xcf\xd3\n";
    const places = objects.map((o, i) => { const at = out.length; out += `${i + 1} 0 obj\n${o}\nendobj\n`; return `${String(at).padStart(10, "0")} 00000 n \n`; });
    return new Blob([bytes(`${out}xref\n0 ${objects.length + 1}\n0000000000 65535 f \n${places.join("")}trailer\n<</Size ${objects.length + 1} /Root 1 0 R /Info 8 0 R>>\nstartxref\n${out.length}\n%%EOF\n`)], {type: "application/pdf"});
  }
}
