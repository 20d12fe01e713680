"use strict";
// What the story and the workbench are built from: views of pictures, handles to drag, sliders, and a player of flows.

// el makes an element: el("button.small", {type: "button", onclick: f}, "text", child).
function el(what, attributes = {}, ...children) {
  const [tag, ...classes] = what.split(".");
  const e = document.createElement(tag);
  if (classes.length) e.className = classes.join(" ");
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) e.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked") e[name] = value;
    else e.setAttribute(name, value === true ? "" : value);
  }
  e.append(...children.filter((c) => c !== null && c !== undefined));
  return e;
}

// symbol turns S_{ap} and T^{cos} into elements.
function symbol(text) {
  const out = document.createDocumentFragment();
  for (const part of text.split(/([_^]\{[^}]*\})/).filter(Boolean)) {
    out.append(part.startsWith("_{") ? el("sub", {}, part.slice(2, -1)) : part.startsWith("^{") ? el("sup", {}, part.slice(2, -1)) : part);
  }
  return out;
}

const reducedMotion = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

// later calls f once the calls have paused for a while.
function later(ms, f) {
  let timer = 0;
  return (...args) => { clearTimeout(timer); timer = setTimeout(() => f(...args), ms); };
}

// fields are those of an address behind the #, by name.
function fields(hash) {
  const decoded = (text) => { try { return decodeURIComponent(text); } catch { return text; } };
  return new Map(hash.replace(/^#/, "").split("&").map((f) => { const [, name, value] = /^([^=]*)=?(.*)$/s.exec(f); return [name, decoded(value)]; }));
}

// controls are the sliders and choices of a part.
const controls = (part) => [...document.querySelectorAll(`#${part} .controls [name]`)];

// setControls moves those of a part to what an address says.
function setControls(part, address) {
  const all = controls(part), known = ["view", "embed", ...all.map((c) => c.name)], unknown = [...address.keys()].find((name) => !known.includes(name) && ![...FIELDS, "kernel"].includes(name));
  if (unknown) throw new Error(`${part}: “${unknown}” is no field of its address; want one of ${known.join(", ")}.`);
  for (const control of all.filter((c) => address.has(c.name))) {
    const {name, min, max, options} = control, to = address.get(name), chosen = options && [...options].map((o) => o.value);
    if (chosen ? !chosen.includes(to) : !(to.trim() && to >= Number(min) && to <= Number(max))) throw new Error(`${part}: ${name} is “${to}”; want ${chosen ? chosen.join(", ") : `${min} to ${max}`}.`);
    control.value = to;
    control.dispatchEvent(new Event(options ? "change" : "input"));
  }
}

const views = new Set();

// View shows a picture on a canvas, with handles above it and buttons that save it.
class View {
  // name is part of a saved file's name; ratio is height over width; on is what happens at a pointer or a key.
  constructor(parent, picture, {name, ratio = 1, most = 560, on = {}, keys = null, save = true} = {}) {
    this.picture = picture; this.name = name; this.ratio = ratio; this.most = most; this.handles = [];
    this.canvas = el("canvas", {role: "img", "aria-label": picture.alt, tabindex: keys ? 0 : undefined});
    this.root = el("div.view", {}, this.canvas);
    if (save) this.root.append(this.toolbar());
    parent.append(this.root);
    this.describe = later(400, () => this.canvas.setAttribute("aria-label", this.picture.alt));
    const pointed = (e) => {
      const box = this.canvas.getBoundingClientRect();
      on.point?.(this.picture.at((e.clientX - box.left) / this.scale, (e.clientY - box.top) / this.scale, this.width, this.height), e);
    };
    if (on.point) {
      this.canvas.addEventListener("pointermove", pointed);
      this.canvas.addEventListener("pointerdown", pointed);
      this.canvas.addEventListener("pointerleave", (e) => { if (e.pointerType === "mouse") on.point(null, e); });
    }
    if (on.turn) this.turnable(on.turn);
    if (keys) this.canvas.addEventListener("keydown", (e) => { if (e.key === "Escape") on.point?.(null, e); else if (keys(e)) e.preventDefault(); });
    views.add(this);
    new ResizeObserver(() => this.resize()).observe(this.root);
    this.resize();
  }

  resize() {
    if (!this.root.clientWidth) return;
    // A picture's units grow with the page's letters, so that its labels do too.
    this.scale = parseFloat(getComputedStyle(document.documentElement).fontSize) / 16;
    this.width = this.root.clientWidth / this.scale;
    this.height = Math.round(Math.min(this.width * this.ratio, this.most));
    this.canvas.style.height = `${this.height * this.scale}px`;
    this.draw();
  }

  draw() {
    if (!this.width) return;
    this.picture.draw(new CanvasPen(this.canvas, this.width, this.height, this.scale), this.width, this.height);
    for (const place of this.handles) place();
    this.describe();
  }

  // turnable lets a pointer turn the picture by dragging.
  turnable(turn) {
    let from = null;
    this.canvas.classList.add("turnable");
    this.canvas.addEventListener("pointerdown", (e) => { if (turn(0, 0)) { from = [e.clientX, e.clientY]; this.canvas.setPointerCapture(e.pointerId); } });
    this.canvas.addEventListener("pointermove", (e) => {
      if (!from || !(e.buttons & 1)) return;
      turn((e.clientX - from[0]) / 120, (e.clientY - from[1]) / 120);
      from = [e.clientX, e.clientY];
    });
    for (const end of ["pointerup", "pointercancel"]) this.canvas.addEventListener(end, () => { from = null; });
  }

  // handle puts something to drag over the picture: at() is its place, drag(x, y) moves it there, key(dx, dy) by steps, and value() has its
  // number and text for a screen reader.
  handle({label, at, drag, key, value}) {
    const h = el("div.handle", {role: "slider", tabindex: 0, "aria-label": label});
    let active = false;
    const place = () => {
      const [x, y] = at(this.width, this.height), v = value();
      h.style.transform = `translate(${x * this.scale}px, ${y * this.scale}px)`;
      h.setAttribute("aria-valuenow", String(Math.round(v.now * 100) / 100));
      h.setAttribute("aria-valuemin", String(v.min)); h.setAttribute("aria-valuemax", String(v.max));
      h.setAttribute("aria-valuetext", plain(v.text));
    };
    h.addEventListener("pointerdown", (e) => { active = true; h.setPointerCapture(e.pointerId); h.focus({preventScroll: true}); e.preventDefault(); });
    h.addEventListener("pointermove", (e) => {
      if (!active) return;
      const box = this.canvas.getBoundingClientRect();
      timing.begin(e);
      drag((e.clientX - box.left) / this.scale, (e.clientY - box.top) / this.scale, this.width, this.height);
    });
    for (const end of ["pointerup", "pointercancel"]) h.addEventListener(end, () => { active = false; });
    h.addEventListener("keydown", (e) => {
      const step = e.shiftKey ? 5 : 1, by = {ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, step], ArrowDown: [0, -step]}[e.key];
      if (!by) return;
      e.preventDefault();
      key(...by);
    });
    this.handles.push(place);
    this.root.append(h);
    if (this.width) place();
    return h;
  }

  // toolbar has one stop of the Tab key; the arrow keys go on from there.
  toolbar() {
    const tool = (text, title, onclick) => el("button", {type: "button", title, "aria-label": `${title}: ${this.name}`, tabindex: -1, onclick}, text);
    const open = () => Object.assign(this.links[0], {href: this.url, target: "_blank"});
    this.links = [el("a", {tabindex: -1}, "Open"), tool("Copy link", "Copy the link", (e) => copy(this.url, e.currentTarget)), tool("Copy <iframe>", "Copy an <iframe> for a page", (e) => copy(this.iframe, e.currentTarget))];
    const menu = tool("Link", "A link to this picture", () => {
      for (const e of this.links) e.hidden = !e.hidden;
      menu.setAttribute("aria-expanded", String(!this.links[0].hidden));
      open();
    });
    menu.setAttribute("aria-expanded", "false");
    for (const e of this.links) e.hidden = true;
    const tools = [...["SVG", "PNG", "PDF"].map((kind) => tool(kind, `Save as ${kind}`, () => this[`save${kind}`]())), ...(location.protocol === "about:" ? [] : [menu, ...this.links])]; // A frame without an address has no links.
    tools[0].tabIndex = 0;
    return el("div.save", {role: "toolbar", "aria-label": `Save: ${this.name}`, onkeydown: (e) => {
      const by = {ArrowLeft: -1, ArrowRight: 1}[e.key], seen = tools.filter((t) => !t.hidden), to = by && seen[seen.indexOf(e.target) + by];
      if (!to) return;
      e.target.tabIndex = -1; to.tabIndex = 0; to.focus(); e.preventDefault();
    }}, ...tools);
  }

  get place() { return this.root.closest("#learn, main > section").id; }

  // scene is the picture's own address, with what its part's controls are at.
  scene() {
    const {place} = this, at = (c) => `&${c.name}=${encodeURIComponent(c.value)}`;
    return (place === "learn" ? Bench.link(`learn.${this.name}`) : `#view=${place}.${this.name.replace(/^race-/, "")}&embed`).replace("&embed", `${controls(place).map(at).join("")}&embed`);
  }

  get url() { return new URL(this.scene(), location.href).href; }

  // iframe is what a page has to show this picture.
  get iframe() {
    const escape = (text) => text.replace(/[&"<>]/g, (c) => `&#${c.charCodeAt(0)};`);
    return `<iframe src="${escape(this.url)}" title="${escape(this.picture.alt)}" width="480" height="560" style="border: 0" loading="lazy"></iframe>`;
  }

  // alone leaves of the page this picture and some elements, and fits it into the window.
  alone(keep) {
    const hide = (of) => { for (const e of of.children) if (keep.some((k) => e !== k && e.contains(k))) hide(e); else if (!keep.includes(e)) e.classList.add("chrome"); };
    const fit = () => { this.most = Math.max(200, innerHeight - 1 - document.body.getBoundingClientRect().height + this.canvas.clientHeight) / this.scale; this.resize(); };
    keep.push(this.root);
    hide(document.querySelector("main > .shown"));
    addEventListener("resize", fit);
    new ResizeObserver(fit).observe(document.body);
  }

  file(extension) { return `${this.name.replace(/[^A-Za-z0-9.-]+/g, "-").replace(/^-+|-+$/g, "")}.${extension}`; }

  svg() {
    const pen = new SvgPen(this.width, this.height, Theme.get().paper, this.picture.alt);
    this.picture.draw(pen, this.width, this.height);
    return String(pen);
  }

  async savePDF() {
    const pen = new PdfPen(this.width, this.height, Theme.get().paper, this.picture.alt);
    this.picture.draw(pen, this.width, this.height);
    download(await pen.file(), this.file("pdf"));
  }

  saveSVG() { download(new Blob([this.svg()], {type: "image/svg+xml"}), this.file("svg")); }

  savePNG() {
    const canvas = el("canvas"), pen = new CanvasPen(canvas, 1, 1), scale = 3; // Three pixels a point, as for print.
    canvas.width = this.width * scale; canvas.height = this.height * scale;
    pen.c.setTransform(scale, 0, 0, scale, 0, 0);
    pen.c.lineJoin = pen.c.lineCap = "round";
    pen.rect(0, 0, this.width, this.height, {fill: Theme.get().paper});
    this.picture.draw(pen, this.width, this.height);
    canvas.toBlob((blob) => download(blob, this.file("png")), "image/png");
  }
}

function download(blob, name) {
  const a = el("a", {href: URL.createObjectURL(blob), download: name});
  document.body.append(a);
  a.click();
  a.remove();
  setTimeout(() => URL.revokeObjectURL(a.href), 10000);
}

// timing measures from an input event to the frame that shows its effect; the browser's performance entries have it.
const timing = {
  from: 0,
  begin(e) { this.from = this.from || e.timeStamp; },
  drawn() {
    const start = this.from;
    if (!start) return;
    this.from = 0;
    requestAnimationFrame((now) => {
      if (performance.getEntriesByName("input to frame").length > 1000) performance.clearMeasures("input to frame");
      performance.measure("input to frame", {start, end: Math.max(now, start)});
    });
  },
};

// drawAll draws views after a change.
function drawAll(...all) {
  for (const view of all) view.draw();
  timing.drawn();
}

let ids = 0;

// slider is a labeled range input. on(value, event) is called while it moves, settle when it rests.
function slider({label, name, min, max, step, value, on, settle, help}) {
  const id = `c${++ids}`, digits = Math.max(0, Math.min(4, Math.ceil(-Math.log10(step) - 1e-9)));
  const output = el("output", {for: id});
  const input = el("input", {type: "range", id, name, min, max, step, title: help});
  const root = el("div.slider", {}, el("label", {for: id, title: help}, symbol(label)), input, output);
  const show = () => {
    output.textContent = number(Number(input.value), digits);
    const part = (input.value - input.min) / (input.max - input.min || 1);
    input.style.setProperty("--part", `${Math.min(Math.max(part, 0), 1) * 100}%`);
  };
  input.addEventListener("input", (e) => { timing.begin(e); show(); on(Number(input.value), e); });
  if (settle) input.addEventListener("change", () => settle(Number(input.value)));
  const set = (v) => {
    // A value from a link may lie outside the slider's suggestion; then the slider grows.
    if (v < Number(input.min)) input.min = v;
    if (v > Number(input.max)) input.max = v;
    if (Math.abs(Math.round((v - input.min) / input.step) * input.step - (v - input.min)) > 1e-9) input.step = "any";
    input.value = v;
    show();
  };
  set(value);
  return {root, input, set, get value() { return Number(input.value); }, enable(yes) { input.disabled = !yes; root.classList.toggle("off", !yes); }};
}

// choice is a labeled select of [value, text] pairs.
function choice({label, name, options, value, on, help}) {
  const id = `c${++ids}`;
  const select = el("select", {id, name, title: help, onchange: (e) => { timing.begin(e); on(select.value); }},
    ...options.map(([v, text]) => el("option", {value: v}, text)));
  select.value = value;
  const root = el("div.choice", {}, el("label", {for: id, title: help}, symbol(label)), select);
  const set = (v) => { // A part in brackets is a formula, and is not among those with a name.
    select.querySelector("option[data-own]")?.remove();
    if (v?.startsWith("[") && ![...select.options].some((o) => o.value === v)) select.append(el("option", {value: v, "data-own": true}, v));
    select.value = v;
  };
  return {root, select, set, get value() { return select.value; }};
}

// check is a labeled checkbox.
function check({label, name, id = `c${++ids}`, value = false, on}) {
  const box = el("input", {type: "checkbox", id, name, checked: value, onchange: () => on?.(box.checked)});
  return {root: el("span.check", {}, box, el("label", {for: id}, label)), box};
}

// partChoices are the selects of a rule's parts, by part.
function partChoices({directions, pairs, triplets, masks}, rule, on) {
  const all = [["direction", "direction", directions], ["pair", "pair weight", pairs], ["triplet", "triplet weight", triplets], ["mask", "mask", [{name: ""}, ...masks]]];
  return Object.fromEntries(all.map(([key, label, list]) => [key, choice({label, name: key, value: rule[key] || "", options: list.map((p) => [p.name, p.name || "none"]), on: (v) => on(key, v)})]));
}

// chosenParts are what describe says of a rule's parts.
function chosenParts({directions, pairs, triplets, masks}, {direction, pair, triplet, mask}) {
  return [[directions, direction], [pairs, pair], [triplets, triplet], [masks, mask]].flatMap(([list, name]) => list.filter((p) => p.name === name));
}

function button(text, on, attributes = {}) { return el("button.action", {type: "button", onclick: on, ...attributes}, text); }

async function copy(text, from) {
  let done = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch { // A file or a frame may have no clipboard.
    const area = el("textarea", {value: text, "aria-hidden": "true", tabindex: -1});
    area.style.cssText = "position:fixed;opacity:0";
    document.body.append(area);
    area.select();
    done = document.execCommand("copy");
    area.remove();
  }
  const label = from.textContent;
  from.textContent = done ? "Copied" : "Select and copy";
  announce(done ? `Copied: ${text}` : "Copying is not allowed here.");
  setTimeout(() => { from.textContent = label; }, 1400);
}

// announce tells a screen reader a line of text.
const announce = later(350, (text) => { document.getElementById("live").textContent = text; });

// FlowPlayer moves embeddings by a rule or loss. The worker computes frames ahead; the player shows one a screen's frame.
class FlowPlayer {
  constructor(engine, {frame, problem, limit = Infinity}) {
    Object.assign(this, {engine, onframe: frame, onproblem: problem, limit});
    this.version = this.steps = 0; this.stride = 1; this.playing = false; this.queue = []; this.visible = true;
    this.tick = this.tick.bind(this);
  }

  // forget drops the frames that are computed and those under way.
  forget() {
    this.version++;
    Object.assign(this, {queue: [], busy: false, asked: null});
  }

  // begin puts embeddings at a start: {F, n, dim, labels}.
  begin(start, subject, rate) {
    this.forget();
    this.proxies = undefined;
    this.start = start; this.subject = subject; this.rate = rate;
    this.F = start.F; this.before = []; this.steps = 0; this.pure = true;
    this.history = {steps: [], sap: [], san: []};
  }

  // change goes on from here with another rule, loss or rate.
  change(subject, rate) {
    if (JSON.stringify([subject, rate]) === JSON.stringify([this.subject, this.rate])) return;
    if (JSON.stringify(subject) !== JSON.stringify(this.subject)) this.proxies = undefined;
    this.forget();
    this.subject = subject; this.rate = rate;
    if (this.steps > 0) this.pure = false; // A link no longer leads here.
    this.request();
  }

  // setStride sets the steps of a frame.
  setStride(stride) {
    this.forget();
    this.stride = stride;
    this.request();
  }

  get chunk() { return this.start.n > 120 ? 6 : 15; }

  async request() {
    if (this.busy || !this.start || this.queue.length > this.chunk) return;
    this.busy = true;
    const version = this.version, from = this.asked || this.F;
    try {
      const r = await this.engine.call("flow", {...this.subject, embeddings: from, labels: this.start.labels, n: this.start.n, dim: this.start.dim,
        rate: this.rate, frames: this.chunk, steps: this.stride, at: this.proxies});
      if (version !== this.version) return;
      const size = r.n * r.dim;
      for (let k = 0; k < r.frames; k++) {
        this.queue.push({F: r.F.slice(k * size, (k + 1) * size), sap: r.sap[k], san: r.san[k], stride: this.stride});
      }
      this.asked = this.queue[this.queue.length - 1].F;
      if (r.proxies) this.proxies = r.P;
      this.busy = false;
      if (this.wanted > 0) this.advance();
      if (this.playing) this.request();
    } catch (error) {
      if (version !== this.version) return;
      this.busy = false;
      this.pause();
      this.onproblem?.(error.message);
    }
  }

  play() {
    if (this.playing) return;
    this.playing = true;
    this.last = 0;
    this.request();
    requestAnimationFrame(this.tick);
  }

  pause() { this.playing = false; }

  // step shows one more frame.
  step() { this.wanted = (this.wanted || 0) + 1; this.advance(); }

  advance() {
    while (this.wanted > 0 && this.queue.length) { this.wanted--; this.show(this.queue.shift()); }
    this.request();
  }

  tick(now) {
    if (!this.playing) return;
    requestAnimationFrame(this.tick);
    if (!this.visible || document.hidden || now - this.last < 14) return; // At most some 60 frames a second.
    const frame = this.queue.shift();
    if (frame) {
      this.last = now;
      this.show(frame);
      if (this.steps >= this.limit) this.pause();
    }
    this.request();
  }

  show(frame) {
    this.before.push(this.F);
    if (this.before.length > 14) this.before.shift();
    this.F = frame.F;
    this.steps += frame.stride;
    const h = this.history;
    h.steps.push(this.steps); h.sap.push(frame.sap); h.san.push(frame.san);
    if (h.steps.length > 600) for (const key of ["steps", "sap", "san"]) h[key] = h[key].filter((_, i) => i % 2 === 1); // Keeps every other point.
    this.onframe(this);
  }
}

// whenSeen calls f with whether an element is on the screen.
function whenSeen(element, f) {
  new IntersectionObserver((entries) => f(entries[entries.length - 1].isIntersecting), {rootMargin: "120px"}).observe(element);
}
