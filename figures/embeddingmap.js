function (root, d) {
  "use strict";
  const svg = "http://www.w3.org/2000/svg";
  root.dataset.awake = ""; // A notebook may show an output more than once.
  const picture = root.querySelector("img");
  const over = document.createElementNS(svg, "svg");
  over.setAttribute("viewBox", "0 0 10000 10000");
  over.setAttribute("preserveAspectRatio", "none");
  over.style.cssText = "position:absolute;left:0;top:0;width:100%;height:100%;pointer-events:none";
  const tip = document.createElement("div");
  tip.setAttribute("role", "status");
  tip.style.cssText = "position:absolute;display:none;pointer-events:none;padding:6px;background:#fff;color:#262626;border:1px solid #6b6b6b;" +
    "border-radius:3px;font:12px/1.35 sans-serif;white-space:nowrap;z-index:2";
  root.append(over, tip);
  if (d.note) {
    const note = document.createElement("div");
    note.textContent = d.note;
    note.style.cssText = "font-size:85%;opacity:.7";
    root.after(note);
  }
  let at = -1;

  const put = (parent, tag, text, css) => {
    const e = document.createElement(tag);
    if (text) e.textContent = text;
    if (css) e.style.cssText = css;
    parent.append(e);
    return e;
  };
  const show = (parent, i, head, name) => {
    const box = put(parent, "div", "", "display:inline-block;vertical-align:top;margin-right:8px");
    put(box, "div", head, "color:#6b6b6b");
    const side = 96, column = i % d.columns, row = Math.floor(i / d.columns);
    if (i >= 0) put(box, "div", "", `width:${side}px;height:${side}px;background:url(${d.sprite}) ${-column * side}px ${-row * side}px/` +
      `${d.columns * side}px ${d.rows * side}px`);
    put(box, "div", name, "font-weight:bold");
  };
  const mark = (tag, attributes) => {
    const e = document.createElementNS(svg, tag);
    for (const k in attributes) e.setAttribute(k, attributes[k]);
    e.setAttribute("vector-effect", "non-scaling-stroke");
    over.append(e);
  };
  const ring = (i, pixels, color, width) => mark("ellipse", {
    cx: d.x[i], cy: d.y[i], rx: 1e4 * pixels / picture.clientWidth, ry: 1e4 * pixels / picture.clientHeight,
    fill: "none", stroke: color, "stroke-width": width,
  });
  const clear = () => { at = -1; tip.style.display = "none"; over.replaceChildren(); };
  const look = i => {
    if (i === at) return;
    clear();
    at = i;
    tip.replaceChildren();
    for (let j = 0; j < d.x.length; j++) if (d.c[j] === d.c[i]) ring(j, 5, "#262626", 1);
    ring(i, 8, "#262626", 2.5);
    show(tip, i, d.k[i] === "g" ? "gallery" : "query", d.names[d.c[i]]);
    const n = d.n[i];
    if (d.o[i] >= 0) {
      const wrong = d.o[i] !== d.c[i];
      if (n >= 0) {
        mark("line", {x1: d.x[i], y1: d.y[i], x2: d.x[n], y2: d.y[n], stroke: wrong ? "#d55e00" : "#0072b2", "stroke-width": 1.5});
        ring(n, 8, wrong ? "#d55e00" : "#0072b2", 2.5);
      }
      show(tip, n, wrong ? "nearest: ✗ wrong" : "nearest: ✓ right", d.names[d.o[i]]);
    }
    tip.style.display = "block";
    const x = d.x[i] / 1e4 * picture.clientWidth, y = d.y[i] / 1e4 * picture.clientHeight;
    const left = x > picture.clientWidth / 2 ? x - tip.offsetWidth - 14 : x + 14;
    tip.style.left = Math.max(0, Math.min(left, root.clientWidth - tip.offsetWidth)) + "px";
    tip.style.top = Math.max(0, Math.min(y - tip.offsetHeight / 2, picture.clientHeight - tip.offsetHeight)) + "px";
  };
  root.addEventListener("pointermove", e => {
    const r = picture.getBoundingClientRect();
    let best = -1, least = 14 * 14;
    for (let i = 0; i < d.x.length; i++) {
      const dx = d.x[i] / 1e4 * r.width - (e.clientX - r.left), dy = d.y[i] / 1e4 * r.height - (e.clientY - r.top);
      if (dx * dx + dy * dy < least) { best = i; least = dx * dx + dy * dy; }
    }
    if (best < 0) clear(); else look(best);
  });
  root.addEventListener("pointerleave", clear);
  root.addEventListener("keydown", e => {
    const step = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1}[e.key];
    if (e.key === "Escape") clear();
    else if (step) look((at + step + d.x.length) % d.x.length);
    else return;
    e.preventDefault();
    e.stopPropagation();
  });
}
