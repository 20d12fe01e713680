"use strict";
// The workbench: one or two rules or losses, a batch, and for each a row of four pictures, from cause to effect, and a triplet on the circle.

const KINDS = ["diagram", "matrix", "swarm", "recall", "circle"];
const HEADINGS = {diagram: "Weight map", matrix: "Gradient matrix M", swarm: "Steps of the points", recall: "Recall@1", circle: "A lone triplet"};
const SCENES = {map: "diagram", M: "matrix", sphere: "swarm", recall: "recall", triplet: "circle"}; // Pictures by their names in an address.
const FIELDS = ["a", "rule", "b", "scale", "batch", "triplet", "show", "arrows", "low", "rate", "steps", "story", "view", "embed", "at", "learn-rate", "learn-dim", "learn-seed"];
const FRAME = 5; // Steps between two points of the recall that is computed ahead.
// What the diagram can show: its title, its color scale, and its name in a select.
const SHOWN = {
  pull: ["T·P_{+}, the pull", "pull", "pull T·P₊"], push: ["T·P_{−}, the push", "push", "push T·P₋"], weight: ["T, the triplet weight", "weight", "weight T"],
  pairPositive: ["P_{+}, the pull’s pair weight", "pull", "pair weight P₊"], pairNegative: ["P_{−}, the push’s pair weight", "push", "pair weight P₋"],
};
const SAMPLE = {classes: 8, images: 4, dim: 3, noise: 0.7, seed: 1};

// subscripts turns S_ap into S_{ap}.
const subscripts = (text) => text.replace(/_([a-z]+)/g, "_{$1}");

// written turns a formula as it is typed into the paper's symbols.
const GREEK = {tau: "τ", alpha: "α", beta: "β", lambda: "λ", epsilon: "ε"};
const written = (text) => text.replace(/\b([SDR])(ap|an)\b/g, "$1_{$2}").replace(/pow\(([^(),]+), *([\d.]+)\)/g, "$1^{$2}").replace(/\b(tau|alpha|beta|lambda|epsilon)\b/g, (name) => GREEK[name])
  .replace(/ *\* */g, "·").replace(/-/g, "−");

// recallAt1 is the share of the first n rows of similarities [·, rows] whose nearest other one has the same label.
function recallAt1(S, rows, n, labels) {
  let right = 0;
  for (let i = 0; i < n; i++) {
    let best = -1;
    for (let j = 0; j < n; j++) if (j !== i && (best < 0 || S[i * rows + j] > S[i * rows + best])) best = j;
    if (best >= 0 && labels[best] === labels[i]) right++;
  }
  return right / n;
}

// products are the inner products of the rows of F [n, dim] with each other.
function products(F, n, dim) {
  const S = new Float32Array(n * n);
  for (let i = 0; i < n; i++) for (let j = 0; j <= i; j++) {
    let s = 0;
    for (let d = 0; d < dim; d++) s += F[i * dim + d] * F[j * dim + d];
    S[i * n + j] = S[j * n + i] = s;
  }
  return S;
}

// Side is one rule or loss with its controls, numbers and pictures.
class Side {
  constructor(bench, letter, text) {
    Object.assign(this, {bench, letter, kind: "rule", numbers: {}, version: 0});
    const about = bench.about;
    this.rule = {direction: "cos", pair: "con", triplet: "con", mask: "", options: {}};
    for (const o of about.options) this.rule.options[o.name] = o.default;
    for (const s of about.switches) this.rule.options[s.name] = false;
    this.loss = {name: about.losses[0].name, parameters: {}};
    this.text = text;
    this.buildControls(about);
    this.player = new FlowPlayer(bench.engine, {frame: () => this.moved(), problem: (line) => { this.fail(line); bench.stopFlow(); }});
  }

  buildControls(about) {
    const group = `kind${this.letter}`;
    const kind = (value, text) => el("label", {}, el("input", {type: "radio", name: group, value, checked: value === "rule", onchange: () => this.setKind(value)}), text);
    this.open = el("button.open", {type: "button", onclick: () => this.bench.openSide(this)});
    this.heading = el("h3", {}, this.open, el("span.segments", {role: "group", "aria-label": "Kind"}, kind("rule", "Rule"), kind("loss", "Loss")));
    this.input = el("input", {type: "text", "aria-label": "Name", spellcheck: "false", autocomplete: "off", onchange: () => this.read(this.input.value.trim())});
    const named = choice({label: "start from", name: "alias", value: "", options: [["", "a named rule …"], ...about.aliases.map((a) => [a.name, `${a.name} (${a.rule})`])],
      on: (v) => { if (v) this.read(v); named.set(""); }});
    this.parts = partChoices(about, this.rule, (key, v) => { this.rule[key] = v; this.changed(); });
    this.help = el("dl");
    this.sliders = {};
    for (const o of about.options) {
      this.sliders[o.name] = slider({label: o.symbol, name: o.name, help: o.help || o.title, min: o.min, max: o.max, step: o.step, value: o.default,
        on: (v) => { this.rule.options[o.name] = v; this.changed(true); }, settle: () => this.changed()});
    }
    this.switches = {};
    const checks = about.switches.map((s) => {
      const c = check({label: s.title + (s.help ? `: ${s.help}` : ""), name: s.name, on: (yes) => { this.rule.options[s.name] = yes; this.changed(); }});
      this.switches[s.name] = c.box;
      return c.root;
    });
    this.formulas = new Formulas(this, about.examples);
    this.equation = el("p.equation");
    this.ruleControls = el("div.dials", {}, ...Object.values(this.parts).map((c) => c.root), ...Object.values(this.sliders).map((s) => s.root));
    this.ruleFolds = [this.formulas.root, el("details", {}, el("summary", {}, "What these parts do"), this.help), el("details", {}, el("summary", {}, "Conventions"), ...checks)];
    this.lossChoice = choice({label: "loss", name: "loss", value: this.loss.name, options: about.losses.map((l) => [l.name, l.title]), on: (v) => { this.setLoss(v, {}); this.changed(); }});
    this.lossParameters = el("div.numbers");
    this.lossControls = el("div.dials", {hidden: true}, this.lossChoice.root, this.lossParameters);
    this.problemLine = el("p.problem", {role: "alert"});
    this.copies = {};
    const copies = [["name", "Copy name"], ["literal", "Copy Go"], ["command", "Copy command"], ["pytorch", "Copy PyTorch"], ["jax", "Copy JAX"], ["latex", "Copy LaTeX"]].map(([key, text]) =>
      this.copies[key] = button(text, (e) => this.copyPart(key, e.currentTarget)));
    this.root = el("section.side", {"aria-label": this.letter === "a" ? "Rule or loss" : "Rule or loss to compare with"},
      el("div.head", {}, this.heading, el("div.name", {}, this.input), named.root), this.ruleControls, this.lossControls,
      el("div.folds", {}, this.equation, ...this.ruleFolds, el("details", {}, el("summary", {}, "Copy"), el("div.buttons", {}, ...copies))), this.problemLine);
    this.setLoss(this.loss.name, {});
  }

  setKind(kind) {
    this.kind = kind;
    this.showKind();
    this.changed();
  }

  showKind() {
    this.ruleControls.hidden = this.kind !== "rule";
    this.lossControls.hidden = this.kind !== "loss";
    for (const fold of this.ruleFolds) fold.hidden = this.kind !== "rule";
    for (const radio of this.heading.querySelectorAll("input")) radio.checked = radio.value === this.kind;
  }

  setLoss(name, parameters) {
    const about = this.bench.about.losses.find((l) => l.name === name);
    this.loss = {name, parameters: {}};
    this.lossChoice.set(name);
    this.lossParameters.replaceChildren(...about.parameters.map((p) => {
      const value = p.switch ? Boolean(parameters[p.name] ?? p.default) : parameters[p.name] ?? p.default;
      this.loss.parameters[p.name] = value;
      if (p.switch) return check({label: p.name, name: p.name, value, on: (yes) => { this.loss.parameters[p.name] = yes; this.changed(); }}).root;
      return slider({label: p.name, name: p.name, help: p.want && `${p.name}: ${p.want}`, min: p.min, max: p.max, step: p.step, value,
        on: (v) => { this.loss.parameters[p.name] = v; this.changed(true); }, settle: () => this.changed()}).root;
    }));
    this.lossAbout = [el("span", {}, symbol(subscripts(`L = ${about.formula}. ${about.source}.`)))];
  }

  get subject() { return this.kind === "rule" ? {rule: this.rule} : {loss: this.loss}; }

  // read sets the controls from a name, such as "cos/lin/cir?tau=2" or "loss:ms?beta=40".
  async read(text) {
    try {
      const isLoss = text.startsWith("loss:") || this.bench.about.losses.some((l) => l.name === text.split("?")[0] && this.kind === "loss");
      const p = await this.bench.engine.call("parse", isLoss ? {loss: text.replace(/^loss:/, "")} : {rule: text});
      this.kind = p.kind;
      if (p.kind === "rule") {
        this.rule = {...p.rule, options: {...this.rule.options, ...p.rule.options}};
        this.take({...p.rule, mask: p.rule.mask || ""});
        for (const [name, s] of Object.entries(this.sliders)) s.set(this.rule.options[name]);
        for (const [name, box] of Object.entries(this.switches)) box.checked = Boolean(this.rule.options[name]);
      } else {
        this.setLoss(p.loss.name, p.loss.parameters);
      }
      this.showKind();
      await this.changed();
    } catch (error) {
      const first = !this.result; // Of a link: the controls' rule is shown instead.
      if (first) await this.changed();
      this.fail(error.message, !first);
    }
  }

  // take sets some parts of the rule.
  take(parts) {
    for (const key of Object.keys(this.parts)) if (key in parts) { this.rule[key] = parts[key]; this.parts[key].set(parts[key]); }
  }

  // changed asks for new numbers. While a slider moves, the color scales stay.
  changed(moving = false) {
    this.version++;
    if (!moving) { this.range = this.arrow = this.push = 0; this.levels = null; }
    if (this.kind === "rule") {
      const chosen = chosenParts(this.bench.about, this.rule);
      for (const [name, s] of Object.entries(this.sliders)) s.root.hidden = !chosen.some((p) => p.uses.includes(name));
      this.help.replaceChildren(...chosen.flatMap((p) => [el("dt", {}, p.name), el("dd", {}, symbol(subscripts(p.help)))]));
    }
    this.player.change(structuredClone(this.subject), this.bench.state.rate);
    this.details();
    this.bench.remember();
    if (!moving) return this.update();
    // Arrows take the longest. They come back when the slider rests.
    this.numbers.arrows = null;
    this.arrowsLater();
    this.bench.look("diagram", "circle", "matrix");
    return this.update("batch", "lone", "diagram");
  }

  arrowsLater = later(180, () => this.update("arrows"));

  // foresee asks how the flow goes on, once the rule, the points and the rate rest.
  foresee = later(450, async () => {
    const {engine, state} = this.bench, at = this.player.steps;
    if (this.player.playing || (this.letter === "b" && !state.compare)) return;
    const frames = Math.min(30, Math.floor(30 * (64 / this.result?.n || 0) ** 2 / (this.kind === "loss" ? 3 : 1) * Math.min(1, 64 / (this.result?.dim || 1)))); // Some 0.3 s.
    const got = frames > 2 && await engine.latest(`ahead${this.letter}`, "flow", {...this.subject, ...this.batch, rate: state.rate, frames, steps: FRAME}).catch(() => null);
    if (!got || !this.result) return;
    this.ahead = Object.assign(got, {at});
    this.recalls(this.result);
    this.views.recall.draw();
  });

  // A loss takes long for each point of its diagram, and has jumps between them. Once it rests there are more.
  finer = later(250, () => this.kind === "loss" && this.update("diagram", "fine"));

  details = later(150, async () => {
    try {
      const p = await this.bench.engine.call("parse", this.subject);
      this.parsed = p;
      this.formulas.show(p);
      if (p.kind === "rule") for (const [name, s] of Object.entries(this.sliders)) s.root.hidden = !p.uses.includes(name);
      this.equation.replaceChildren(...this.equations(p));
      for (const [key, b] of Object.entries(this.copies)) b.disabled = !p[key]; // A part of the user's own has no code here.
    } catch { this.parsed = null; }
    this.bench.remember();
  });

  // equations says the gradient in the paper's symbols.
  equations({kind, rule, formulas: f}) {
    if (kind === "loss") return this.lossAbout;
    const e = (of) => `e_{${of}}^{${rule.direction}}`, line = (name, text) => el("span", {}, symbol(`${name} = ${written(text)}`));
    return [el("span", {}, symbol(`∂L/∂f_{a} = T·(P_{+} ${e("ap")} + P_{−} ${e("an")})`)), ...(f ? [line("P_{+}", f.positive), line("P_{−}", f.negative), line("T", f.triplet)] : []),
      ...(f?.mask ? [el("span", {}, symbol(`P_{+} = 0 where ${written(f.mask)}`))] : [])];
  }

  async copyPart(key, from) {
    try {
      const p = await this.bench.engine.call("parse", this.subject);
      await copy(p[key], from);
    } catch (error) {
      this.fail(error.message);
    }
  }

  // fail says a problem. stale tells that the pictures are of what was there before.
  fail(text, stale = false) {
    this.problemLine.textContent = text;
    for (const card of this.cards) card.classList.toggle("stale", stale);
  }

  // batch is what is computed on: where the flow is, or its start.
  get batch() {
    const b = this.bench.base, p = this.player;
    return p.start && p.steps > 0 ? {embeddings: p.F, labels: p.start.labels, n: p.start.n, dim: p.start.dim} : b;
  }

  // update asks for new numbers: those of the batch, the lone triplet, the diagram, its arrows. Other numbers stay. Those of one subject arrive
  // together, so that all pictures show the same one.
  async update(...wanted) {
    const {engine, state} = this.bench, letter = this.letter, subject = this.subject;
    if (letter === "b" && !state.compare) return;
    const want = (part) => wanted.length === 0 || wanted.includes(part), grid = {...subject, low: state.low, high: 1}, fine = wanted.includes("fine");
    if (want("diagram") && !fine) this.finer();
    const ask = {
      batch: () => {
        const at = this.player.steps;
        return engine.latest(`batch${letter}`, "compute", {...subject, ...this.batch}).then((r) => r && Object.assign(r, {at}), (error) => ({error}));
      },
      lone: () => {
        const lone = triplet(state.triplet);
        if (this.kind === "loss") delete lone.triplets; // A loss finds its own.
        return engine.latest(`lone${letter}`, "compute", {...subject, ...lone}).catch((error) => ({error}));
      },
      diagram: () => engine.latest(`diagram${letter}`, "diagram", fine ? {...grid, side: 61} : grid).catch((error) => ({error})),
      arrows: () => {
        const version = this.version;
        if (!state.arrows) return {};
        return engine.latest(`arrows${letter}`, "field", {...grid, side: 11, rate: 0.1}).then((r) => version === this.version ? r : {}, () => ({}));
      },
    };
    const parts = Object.keys(ask).filter(want), run = this.run = {};
    if (!this.player.playing) this.bench.cards.toggleAttribute("data-busy", true); // Frames of a flow must not fade.
    try {
      const got = await Promise.all(parts.map((part) => ask[part]()));
      if (!got.some(Boolean)) return;
      // What is null comes with a newer call, which is under way.
      const failed = got[parts.indexOf("batch")]?.error; // The diagram shows where weights are not finite.
      parts.forEach((part, i) => { this.numbers[part] = (part === "batch" && failed ? null : got[i]) || this.numbers[part]; });
      const {batch, lone, diagram} = this.numbers;
      if (failed && !(batch && lone && diagram)) throw failed;
      if (!batch || !lone || !diagram) return;
      if (batch.at && batch.at === this.linked) this.range = this.push = this.linked = 0; // The colors are those of where an address leads.
      this.result = batch;
      this.name = batch.name;
      if (document.activeElement !== this.input) this.input.value = batch.name;
      this.show();
      if (want("batch")) this.foresee();
      this.fail(failed?.message || lone.error?.message || diagram.error?.message || batch.onS || "", Boolean(failed));
      if (failed && !diagram.error) this.cards[KINDS.indexOf("diagram")].classList.remove("stale");
    } catch (error) {
      this.fail(error.message, true);
    } finally {
      if (this.run === run) this.bench.cards.toggleAttribute("data-busy", false);
    }
  }

  show() {
    const {state} = this.bench, {diagram, circle, matrix, swarm} = this.pictures, [title, hue] = SHOWN[state.show];
    const {batch: r, lone: one, diagram: d, arrows: f} = this.numbers;
    Object.assign(diagram, {low: state.low, title, hue, triplets: r.triplets});
    diagram.arrows = state.arrows && f?.dsap ? f : null;
    if (d.error) diagram.values = null;
    else {
      Object.assign(diagram, {values: d[state.show], side: d.side, range: null});
      this.levels = this.levels || diagram.extent();
      diagram.range = this.common((side) => side.levels, (x, y) => [Math.min(x[0], y[0]), Math.max(x[1], y[1])]);
    }
    if (!one.error) {
      showTriplet(circle, state.triplet, one, 0);
      // Gradients differ in scale. As with colors, the scale of the arrows stays while a slider moves.
      this.arrow = this.arrow || roundStep(0.6 / largest(one.G.subarray(0, 6)));
      circle.length = this.common((side) => side.arrow, Math.min);
      circle.title = `The lone triplet’s step × ${number(circle.length)}`;
    }
    const {sap, san} = similarities(state.triplet);
    diagram.marks = [{sap, san, open: true}];
    this.range = this.range || largest(r.M);
    Object.assign(matrix, {values: r.M, rows: r.rows, n: r.n, labels: r.labels, range: this.common((side) => side.range, Math.max), title: "M"});
    if (!this.player.playing) Object.assign(swarm, {F: r.f, n: r.n, dim: r.dim, labels: r.labels});
    this.push = this.push || roundStep(0.5 / largest(r.G.subarray(0, r.n * r.dim)));
    Object.assign(swarm, {triplets: r.triplets, G: this.player.playing ? null : r.G, length: this.common((side) => side.push, Math.min)});
    const scale = swarm.G ? `, steps × ${number(swarm.length)}` : "";
    swarm.title = r.dim === 2 ? "Embeddings on the circle" : r.dim === 3 ? "Embeddings on the sphere" : "Main components";
    swarm.title += scale;
    this.recalls(r);
    this.bench.light();
    drawAll(...Object.values(this.views));
    this.readouts(r, one);
  }

  // recalls draws the Recall@1 of the embeddings: of the flow so far, and dashed of its next steps by this rule.
  recalls(r) {
    const {recall} = this.pictures, steps = r.at, {ahead} = this, now = recallAt1(r.S, r.rows, r.n, r.labels), past = this.past = steps ? this.past || [] : [];
    if (past.at(-1)?.x !== steps) past.push({x: steps, y: 100 * now});
    const size = r.n * r.dim, next = [{x: steps, y: 100 * now}];
    for (let k = 0; ahead && ahead.at === steps && ahead.n === r.n && ahead.dim === r.dim && !this.player.playing && k < ahead.frames; k++) {
      next.push({x: steps + (k + 1) * FRAME, y: 100 * recallAt1(products(ahead.F.subarray(k * size, (k + 1) * size), r.n, r.dim), r.n, r.n, r.labels)});
    }
    const series = (of, more) => ({x: of.map((p) => p.x), y: of.map((p) => p.y), color: "positive", ...more});
    Object.assign(recall, {xRange: [0, Math.max(steps, next.at(-1).x, 50)], marker: steps, series: [series(past, {width: 2.6}), series(next, {dash: [4, 4], name: next.length > 1 ? "if played on" : "", width: 1.8})]});
    const percent = (p) => `${number(p.y, 0)} %`;
    this.say("recall", `Of ${r.n} points, the nearest other one is of their class: ${steps ? `${percent(past[0])} at the start, ${percent(next[0])} at step ${steps}` : `${percent(next[0])} at the start`}` +
      (next.length > 1 ? `, ${percent(next.at(-1))} ${next.at(-1).x - steps} steps on` : ""));
  }

  // common is a scale of this side or, if two sides share theirs, of both; the other side is then drawn again if it changes.
  common(of, both) {
    const {a, b, state} = this.bench, other = this === a ? b : a;
    if (!state.compare || !state.shared || !of(other)) return of(this);
    const before = JSON.stringify(this.shown), scale = both(of(this), of(other));
    this.shown = {...this.shown, [String(of)]: scale};
    if (JSON.stringify(this.shown) !== before) this.bench.again(other);
    return scale;
  }

  readouts(r, one) {
    const t = r.triplets, mean = (a) => t.count ? number(a.reduce((s, x) => s + x, 0) / t.count, 3) : "—";
    const hard = t.count ? Array.from(t.sap).filter((s, k) => t.san[k] > s).length : 0;
    const {sap, san} = similarities(this.bench.state.triplet);
    this.say("diagram", `${t.count}${t.left ? ` of ${t.count + t.left}` : ""} triplets, ${hard} hard` +
      (this.kind === "loss" ? `; loss ${number(r.value)}` + (this.numbers.diagram.error ? "" : `; direction, pair and triplet weight explain all but ${number(100 * this.numbers.diagram.residual, 1)} % of its gradient`) : r.alone.length ? `; anchors without one: ${r.alone.length}` : ""));
    this.say("circle", `S_{ap} ${number(sap, 2)}, S_{an} ${number(san, 2)}` + (one.error ? "" : `; steps: ${["a", "p", "n"].map((m, i) => `${m} ${number(Math.hypot(one.G[2 * i], one.G[2 * i + 1]), 3)}`).join(", ")}`));
    this.say("matrix", this.shape = this.kind === "loss" ? `symmetric; ${number(100 * r.implied.residual, 1)} % of the gradient comes from no triplet, ${number(100 * r.implied.lone, 1)} % from anchors that have none` :
      r.skew > 1e-4 ? `not symmetric: ${number(100 * r.skew, 1)} %` : "symmetric");
    this.say("swarm", `mean S_{ap} ${mean(t.sap)}, S_{an} ${mean(t.san)}` + (this.player.steps ? `; step ${this.player.steps}` : ""));
    announce(`${r.name}: ${this.lines.diagram.textContent}; ${this.lines.swarm.textContent}; M ${this.shape}.`);
  }

  say(kind, text) { this.lines[kind].replaceChildren(symbol(text)); }

  // moved shows a frame of the flow. The other pictures follow a few times a second.
  moved() {
    const {swarm} = this.pictures, p = this.player;
    Object.assign(swarm, {F: p.F, before: p.before, history: p.history});
    this.views.swarm.draw();
    const now = performance.now();
    if (!p.playing || now - (this.followed || 0) > 200) {
      this.followed = now;
      this.update("batch");
    }
    if (!p.playing) this.bench.remember();
  }

  // lit is what belongs to a selection: points, cells of M, and triplets.
  lit(selection) {
    const r = this.result, s = r?.triplets;
    if (!selection || !r) return null;
    const {ids: names, names: classes} = this.bench.own || {}, id = (i) => names?.[i] ?? i, kind = (i) => classes?.[r.labels[i]] ?? r.labels[i];
    const inside = (i) => i < r.rows, out = {points: [], cells: [], triplets: [], text: ""};
    const take = (k) => {
      const [a, p, n] = [s.anchor[k], s.positive[k], s.negative[k]];
      out.points.push(a, p, n);
      out.cells.push([a, p], [p, a], [a, n], [n, a]);
      out.triplets.push(k);
      out.text = `triplet ${id(a)}, ${id(p)}, ${id(n)}: S_{ap} ${number(s.sap[k], 2)}, S_{an} ${number(s.san[k], 2)}, P₊ ${number(s.pairPositive[k])}, P₋ ${number(s.pairNegative[k])}, T ${number(s.weight[k])}`;
    };
    if (selection.cell) {
      const [i, j] = selection.cell;
      if (!inside(i) || !inside(j)) return null;
      out.points.push(i, j);
      out.cells.push([i, j], [j, i]);
      for (let k = 0; k < s.count && out.triplets.length < 40; k++) {
        const a = s.anchor[k], others = [s.positive[k], s.negative[k]];
        if ((a === i && others.includes(j)) || (a === j && others.includes(i))) out.triplets.push(k);
      }
      const value = r.M[i * r.rows + j];
      out.text = `M[${id(i)}, ${id(j)}] = ${number(value)}: ${value < 0 ? `${id(i)} moves towards ${id(j)}` : value > 0 ? `${id(i)} moves away from ${id(j)}` : "no force"}; classes ${kind(i)} and ${kind(j)}`;
    } else if (selection.members || selection.point !== undefined) {
      const [a, p, n] = selection.members || [selection.point];
      const k = s.anchor.findIndex((x, i) => x === a && i < s.count && (p === undefined || (s.positive[i] === p && s.negative[i] === n)));
      if (k >= 0) take(k);
      else { out.points.push(...[a, p, n].filter((i) => i !== undefined && inside(i))); out.text = `embedding ${id(a)}, class ${kind(a)}`; }
    }
    out.first = out.triplets[0];
    return out;
  }
}

const Bench = {
  async begin(engine, about, state) {
    Object.assign(this, {engine, about, reads: 0, note: document.getElementById("loading")});
    this.state = {compare: false, show: "pull", arrows: true, low: 0, shared: true, rate: 0.03, triplet: {anchor: 0, positive: 1.05, negative: -0.88}, sample: {...SAMPLE}};
    this.base = {sample: this.state.sample};
    this.a = new Side(this, "a", "cos-orth/lin-ms/cir");
    this.b = new Side(this, "b", "cos/con/con");
    this.build(document.getElementById("workbench"));
    addEventListener("hashchange", ({newURL}) => { // Not location.hash, in which a state from before may be written by now.
      const {hash} = new URL(newURL);
      if (hash !== this.written) this.restore(hash);
    });
    if (!await this.restore(state)) {
      await this.b.read(this.b.text);
      await this.a.read("cos/lin/cir?tau=4");
    }
    if (about.batch) await this.useOwn(about.batch);
    this.ready = true;
  },

  build(root) {
    const state = this.state;
    this.compareButton = button("Compare two", () => this.setCompare(!state.compare), {"aria-pressed": "false"});
    this.playButton = button("Play", () => this.flow(!this.a.player.playing), {class: "action main"});
    this.rate = slider({label: "rate", name: "rate", help: "Size of a step of the flow", min: 0.001, max: 0.2, step: 0.001, value: state.rate,
      on: (v) => { state.rate = v; this.look("swarm", "circle"); for (const side of this.sides) side.player.change(structuredClone(side.subject), v); }, settle: () => { this.remember(); this.each((s) => { s.show(); s.foresee(); }); }});
    this.stride = slider({label: "steps a frame", name: "stride", min: 1, max: 20, step: 1, value: 1, on: (v) => { for (const side of [this.a, this.b]) side.player.setStride(v); }});
    this.show = choice({label: "diagram", name: "show", value: state.show, options: Object.entries(SHOWN).map(([v, [, , text]]) => [v, text]),
      on: (v) => { state.show = v; this.look("diagram"); this.each((s) => { s.levels = null; s.show(); }); this.remember(); }});
    this.low = choice({label: "from", name: "low", value: "0", options: [["0", "0"], ["-1", "−1"]], help: "Lowest similarity of the diagram",
      on: (v) => { state.low = Number(v); this.look("diagram"); this.each((s) => { s.levels = null; s.update("diagram", "arrows"); }); this.remember(); }});
    const arrows = check({label: "arrows", id: "arrows", value: true, on: (yes) => { state.arrows = yes; this.each((s) => s.update("arrows")); this.remember(); }});
    // Controls of one picture stand beside it.
    const shared = check({label: "one scale", id: "shared", value: true, on: (yes) => { state.shared = yes; this.each((s) => s.result && s.show()); this.remember(); }});
    Object.assign(this, {arrows: arrows.box, shared: shared.box, sharedBox: shared.root});
    this.tools = el("div.controls", {role: "group", "aria-label": "Diagram"}, this.show.root, this.low.root, arrows.root);
    this.flowTools = el("div.flow", {role: "group", "aria-label": "Flow"}, this.playButton, button("Step", () => { this.look("swarm"); this.each((s) => this.startFlow(s) && s.player.step()); }),
      button("Reset", () => this.restart()));
    this.paths = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    this.paths.setAttribute("class", "paths");
    this.cards = el("div.cards", {}, this.paths);
    for (const side of [this.a, this.b]) for (const kind of KINDS.slice(0, 4)) this.card(kind, side);
    for (const side of [this.a, this.b]) this.card("circle", side);
    root.append(el("div.stage", {}, el("div.panel", {}, el("div.bar", {}, this.flowTools, el("div.pace", {}, this.rate.root, this.stride.root), el("div.data", {}, this.compareButton, this.sharedBox, this.batchPanel(), dataPanel(this, this.back))), this.a.root, this.b.root), this.cards));
    new ResizeObserver(() => { root.style.setProperty("--dials", `${Math.max(...[this.a, this.b].flatMap((s) => [s.ruleControls, s.lossControls]).map((d) => d.offsetHeight))}px`); this.trace(); }).observe(root);
    this.showCompare();
  },

  card(kind, side) {
    side.pictures = side.pictures || {}; side.views = side.views || {}; side.lines = side.lines || {}; side.cards = side.cards || [];
    const picture = side.pictures[kind] = new {diagram: Diagram, circle: Circle, matrix: Matrix, swarm: Swarm, recall: Curves}[kind]();
    if (kind === "recall") Object.assign(picture, {xTitle: "steps of the flow", yRange: [0, 100], title: "Recall@1 of these points, in percent"});
    const card = el(`div.card.${kind}`), line = side.lines[kind] = el("p.readout"), label = el("p.of");
    side.cards.push(card);
    card.append(label);
    const point = (hit, e) => {
      if (hit?.triplet !== undefined) {
        const s = side.result.triplets, k = hit.triplet;
        hit = {members: [s.anchor[k], s.positive[k], s.negative[k]]};
        if (e.type === "pointerdown") this.place(s.sap[k], s.san[k]);
      }
      this.select(hit, side);
    };
    const keys = {
      diagram: (e) => this.cycle(e, side.result?.triplets.count, (k) => point({triplet: k}, e)),
      matrix: (e) => this.walk(e, side),
      swarm: (e) => e.shiftKey ? turnKeys(e, picture, side.views.swarm) : this.cycle(e, side.result?.n, (i) => point({point: i}, e)),
    }[kind];
    const view = side.views[kind] = new View(card, picture, {name: kind, ratio: 0.92, most: this.view ? 400 : 620, keys, on: !keys ? {} : {point,
      turn: kind === "swarm" ? (dx, dy) => turnSwarm(picture, view, dx, dy) : undefined}});
    const scene = Object.keys(SCENES).find((name) => SCENES[name] === kind);
    view.scene = () => this.link(scene, side);
    view.file = (extension) => `${(side.name || "dmlx").replace(/[^A-Za-z0-9.-]+/g, "-")}-${kind}.${extension}`;
    card.append(line, ...(side === this.a && kind === "diagram" ? [this.tools] : []));
    if (kind === "circle") triangle(view, this.state.triplet, () => this.dragged());
    if (kind === "diagram") diagramHandle(view, () => similarities(this.state.triplet), (sap, san) => this.place(sap, san), "The lone triplet");
    label.textContent = HEADINGS[kind];
    side.headings = [...(side.headings || []), label];
    this.cards.append(card);
  },

  batchPanel() {
    const state = this.state, of = (name, label, min, max, step) => this.batchSliders[name] = slider({label, name, min, max, step, value: state.sample[name],
      on: (v) => { state.sample[name] = v; this.look("matrix", "swarm"); if (!this.own) this.useSample(true); }, settle: () => this.useSample()});
    this.batchSliders = {};
    const sliders = [of("classes", "classes", 2, 16, 1), of("images", "points of each", 2, 16, 1), of("noise", "noise", 0, 3, 0.05), of("seed", "seed", 1, 50, 1)];
    this.dimension = choice({label: "embedding on", name: "dim", value: String(state.sample.dim), options: [["2", "circle (2)"], ["3", "sphere (3)"], ["8", "8 dimensions"], ["32", "32 dimensions"], ["64", "64 dimensions"]],
      on: (v) => { state.sample.dim = Number(v); this.look("matrix", "swarm"); this.useSample(); }});
    this.back = button("Back to the sample", () => this.useSample());
    this.back.hidden = true;
    this.batchFold = el("details.batch", {}, el("summary.action", {}, "Batch"), el("div.dials", {}, this.dimension.root, ...sliders.map((s) => s.root)));
    return this.batchFold;
  },

  // look brings a picture into the strip where a narrow window has them, unless one of them is there.
  look(...kinds) {
    const strip = this.cards;
    if (!strip || strip.scrollWidth <= strip.clientWidth + 1) return;
    const cards = kinds.map((kind) => this.a.cards[KINDS.indexOf(kind)]), left = strip.getBoundingClientRect().left;
    if (cards.some((c) => { const box = c.getBoundingClientRect(); return box.left >= left - 2 && box.right <= left + strip.clientWidth + 2; })) return;
    strip.scrollLeft += cards[0].getBoundingClientRect().left - left;
  },

  // again draws a side once more, after the one that is being drawn.
  again(side) {
    if (side.due) return;
    side.due = true;
    queueMicrotask(() => { side.due = false; if (side.result) side.show(); });
  },

  // openSide shows the controls of one of two compared sides.
  openSide(side) {
    this.opened = side;
    for (const s of [this.a, this.b]) {
      s.root.classList.toggle("folded", this.state.compare && s !== side);
      s.open.setAttribute("aria-expanded", String(s === side));
      s.open.disabled = !this.state.compare;
    }
  },

  get sides() { return this.state.compare ? [this.a, this.b] : [this.a]; },
  each(f) { this.sides.forEach(f); },

  setCompare(on) {
    this.state.compare = on;
    this.opened = this.b;
    this.showCompare();
    this.b.player.playing = false;
    if (on) { this.restart(); this.b.changed(); }
    this.remember();
  },

  showCompare() {
    const on = this.state.compare;
    this.compareButton.setAttribute("aria-pressed", String(on));
    this.b.root.hidden = !on;
    for (const card of this.b.cards) card.hidden = !on;
    this.cards.classList.toggle("compared", on);
    this.a.open.textContent = on ? "A" : "Rule or loss";
    this.b.open.textContent = "B";
    this.sharedBox.hidden = !on;
    this.openSide(on ? this.opened || this.b : this.a);
    this.title();
    Learn.show();
  },

  title() {
    for (const [side, letter] of [[this.a, "A"], [this.b, "B"]]) {
      side.headings.forEach((h, i) => { h.textContent = [HEADINGS[KINDS[i]], this.state.compare ? `${letter}: ${side.name || ""}` : this.embed ? side.name : ""].filter(Boolean).join(" · "); });
    }
  },

  // place moves the lone triplet to given similarities.
  place(sap, san) { placeBy(this.state.triplet, sap, san); this.dragged(); },
  dragged() { this.each((s) => s.update("lone")); this.remember(); },

  // select lights what a pointer or a key is at, in all pictures; side tells its numbers.
  select(hit, side = this.a) {
    if (JSON.stringify(hit) === JSON.stringify(this.selection)) return;
    this.selection = hit;
    this.light();
    for (const s of this.sides) {
      for (const kind of KINDS) s.views[kind].draw();
      s.say("matrix", s.shape || "");
    }
    const text = hit && side.lit(hit)?.text;
    if (!text) return;
    side.say("matrix", text);
    announce(plain(text));
  },

  light() {
    for (const side of this.sides) {
      const lit = side.lit(this.selection);
      for (const kind of ["diagram", "matrix", "swarm"]) side.pictures[kind].lit = lit;
      const s = side.result?.triplets, k = lit?.first;
      side.pictures.circle.echo = k === undefined ? null : {sap: s.sap[k], san: s.san[k], anchor: this.state.triplet.anchor};
    }
    this.title();
    this.trace();
  },

  // trace draws the paths of what is lit across the pictures: from a triplet to its entries of M, and on to the point that they move.
  trace() {
    const lines = [], box = this.cards.getBoundingClientRect(), at = (view, [x, y]) => {
      const b = view.canvas.getBoundingClientRect();
      return [b.left - box.left + this.cards.scrollLeft - this.cards.clientLeft + x * view.scale, b.top - box.top - this.cards.clientTop + y * view.scale];
    };
    for (const {pictures: {diagram, matrix, swarm}, views: v, result} of this.sides) {
      const lit = matrix.lit, s = result?.triplets;
      if (!lit?.cells.length || !v.matrix.width) continue;
      const map = diagram.frame(v.diagram.width, v.diagram.height), m = matrix.frame(v.matrix.width, v.matrix.height), ball = swarm.frame(v.swarm.width, v.swarm.height);
      const dots = lit.triplets.slice(0, 6).map((k) => [s.anchor[k], at(v.diagram, [map.px(Math.max(s.sap[k], diagram.low)), map.py(Math.max(s.san[k], diagram.low))])]);
      for (const [i, j] of lit.cells) {
        if (i >= result.n) continue;
        const entry = at(v.matrix, [m.x + (j + 0.5) * m.cell, m.y + (i + 0.5) * m.cell]), color = result.labels[i] === result.labels[j] ? "positive" : "negative";
        for (const [a, dot] of dots) if (a === i || a === j) lines.push([color, dot, entry]);
        if (swarm.F) lines.push([color, entry, at(v.swarm, swarm.place(swarm.F, i, ball))]);
      }
    }
    this.paths.replaceChildren(...lines.map(([color, [x1, y1], [x2, y2]]) => {
      const path = document.createElementNS("http://www.w3.org/2000/svg", "path"), bend = (x2 - x1) / 2;
      path.setAttribute("class", color);
      path.setAttribute("d", `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`);
      return path;
    }));
  },

  cycle(e, count, f) {
    const by = {ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1}[e.key];
    if (!by || !count) return false;
    this.cursor = ((this.cursor ?? -1) + by + count) % count;
    f(this.cursor);
    return true;
  },

  walk(e, side) {
    const by = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0]}[e.key];
    const rows = side.result?.rows;
    if (!by || !rows) return false;
    const [i, j] = this.selection?.cell || [0, -by[1]];
    this.select({cell: [Math.min(Math.max(i + by[0], 0), rows - 1), Math.min(Math.max(j + by[1], 0), rows - 1)]}, side);
    return true;
  },

  // A flow starts from the batch's normalized embeddings.
  startFlow(side) {
    if (!side.result) return false;
    if (!side.player.start) {
      const r = side.result, n = r.n;
      side.player.begin({F: r.f.slice(0, n * r.dim), n, dim: r.dim, labels: r.labels.slice(0, n)}, structuredClone(side.subject), this.state.rate);
    }
    return true;
  },

  flow(on) {
    this.look("swarm");
    if (on) this.cards.removeAttribute("data-busy"); // Of an answer that is still under way.
    this.each((side) => {
      if (!on) side.player.pause();
      else if (this.startFlow(side)) side.player.play();
    });
    this.playButton.textContent = this.a.player.playing ? "Pause" : "Play";
    if (!on) { this.each((s) => s.update("batch")); this.remember(); }
  },

  stopFlow() { this.each((s) => s.player.pause()); this.playButton.textContent = "Play"; },

  // clear puts both flows at their start.
  clear() {
    this.stopFlow();
    for (const side of [this.a, this.b]) {
      side.player.forget();
      Object.assign(side.player, {start: null, steps: 0, wanted: 0});
      Object.assign(side.pictures.swarm, {before: [], history: null, basis: null});
    }
  },

  restart() {
    this.clear();
    this.remember();
    return Promise.all(this.sides.map((s) => s.update("batch")));
  },

  useSample(moving) {
    this.sampled();
    if (!moving) this.each((s) => { s.range = s.push = 0; });
    return this.restart();
  },

  // sampled forgets the user's embeddings, which are those of files or of a notebook's program.
  sampled() {
    Object.assign(this, {base: {sample: {...this.state.sample}}, own: null});
    this.showOwn(false);
  },

  useOwn(batch) {
    const {embeddings, labels, n, dim} = batch;
    Object.assign(this, {own: batch, base: {embeddings, labels, n, dim}});
    this.showOwn(true);
    this.each((s) => { s.range = s.push = 0; });
    return this.restart();
  },

  // showOwn turns off what has no effect on a user's embeddings.
  showOwn(own) {
    this.back.hidden = !own;
    this.batchSliders.noise.enable(!own);
    this.dimension.select.disabled = own;
  },

  // remember writes the state into the address.
  remember: later(200, () => Bench.write()),

  // link is the address of what is seen or, of a view, of its side alone.
  link(view, of) {
    const s = this.state, text = (side) => (side.kind === "loss" ? "loss:" : "") + (side.parsed?.name || side.name || side.text), both = s.compare && !of;
    const out = [...(view ? [["view", view]] : []), [view ? "rule" : "a", text(of || this.a)]];
    if (both) out.push(["b", text(this.b)]);
    if (both && !s.shared) out.push(["scale", "0"]);
    const m = s.sample;
    out.push(["batch", `${m.classes}x${m.images}x${m.dim},${m.noise},${m.seed}`], ["triplet", ["anchor", "positive", "negative"].map((r) => Math.round(s.triplet[r] * 1800 / Math.PI) / 10).join(",")]);
    if (s.show !== "pull") out.push(["show", s.show]);
    if (!s.arrows) out.push(["arrows", "0"]);
    if (s.low) out.push(["low", String(s.low)]);
    if (s.rate !== 0.03) out.push(["rate", String(s.rate)]);
    if (Tour.story && view === undefined) out.push(["story", Tour.story]);
    if (this.view && view === undefined) out.push(["view", this.view]);
    if (this.at && view === undefined) out.push(["at", this.at]);
    const p = (of || this.a).player;
    if (p.steps && p.pure && !p.playing && !this.own) out.push(["steps", String(p.steps)]);
    if (view || (this.embed && view === undefined)) out.push(["embed", ""]);
    return "#" + out.map(([k, v]) => `${k}=${encodeURIComponent(v).replace(/%2F/g, "/").replace(/%3F/g, "?").replace(/%3D/g, "=").replace(/%3A/g, ":").replace(/%2C/g, ",")}`).join("&").replace(/&embed=$/, "&embed");
  },

  write() {
    if (!this.ready) return;
    const link = this.link();
    if (link === this.written) return;
    const first = this.written === undefined;
    this.written = link;
    if (parent !== window) parent.postMessage({dmlx: "state", state: link.slice(1)}, "*");
    if (first && !this.touched) return; // The first picture is no change of the reader's.
    try { history.replaceState(null, "", link); } catch { /* A frame by srcdoc has no address of its own. */ }
  },

  // arrived waits until the flows are at a step, and tells whether they still go there.
  async arrived(steps) {
    const {reads} = this;
    while (this.sides.some((s) => s.result?.at !== steps)) {
      await new Promise(requestAnimationFrame);
      if (this.reads !== reads) return false;
    }
    return true;
  },

  // restore sets everything from an address, after those before it.
  restore(hash) { const read = () => this.read(hash); return this.restored = Promise.resolve(this.restored).then(read, read); },

  async read(hash) {
    const q = fields(hash), faults = [...q.keys()].filter((name) => name && !FIELDS.includes(name)).map((name) => `“${name}” is no field of an address; want one of ${FIELDS.join(", ")}.`);
    const tell = () => { if (this.embed) { this.note.textContent = faults.join(" "); this.note.classList.toggle("problem", faults.length > 0); } };
    tell();
    if (!["a", "rule", "batch"].some((name) => q.has(name))) {
      const scene = Tour.address(q.get("story"));
      if (!scene && q.has("story")) Tour.show(q.get("story"));
      return scene ? this.read(scene) : false;
    }
    const s = this.state, finite = (v, otherwise) => v !== undefined && v !== "" && Number.isFinite(Number(v)) ? Number(v) : otherwise;
    const batch = /^(\d+)x(\d+)x(\d+),(\d*\.?\d+),(\d{1,15})$/.exec(q.get("batch") || "");
    const want = (name, right, example) => { if (q.has(name) && !right) faults.push(`${name}=${q.get(name)} is not read; want ${example}.`); };
    want("batch", batch, "classes x points x dimensions, noise, seed, as batch=8x4x3,0.7,1");
    if (batch) {
      const [classes, images, dim, noise, seed] = batch.slice(1).map(Number);
      Object.assign(s.sample, {classes, images, dim, noise, seed});
      for (const [name, control] of Object.entries(this.batchSliders)) control.set(s.sample[name]);
      if (![...this.dimension.select.options].some((o) => o.value === String(dim))) this.dimension.select.append(el("option", {value: dim}, `${dim} dimensions`));
      this.dimension.set(String(dim));
    }
    const angles = (q.get("triplet") || "").split(",").map((v) => finite(v, NaN) * Math.PI / 180);
    if (angles.length === 3 && angles.every(Number.isFinite)) [s.triplet.anchor, s.triplet.positive, s.triplet.negative] = angles;
    want("triplet", angles.length === 3 && angles.every(Number.isFinite), "three angles in degrees, as triplet=0,60,-50");
    const show = q.get("show") || "pull";
    want("show", Object.hasOwn(SHOWN, show), `show=${Object.keys(SHOWN).join(", ")}`);
    tell();
    if (Object.hasOwn(SHOWN, show)) this.show.set(s.show = show);
    s.arrows = q.get("arrows") !== "0";
    this.arrows.checked = s.arrows;
    s.low = q.get("low") === "-1" ? -1 : 0;
    this.low.set(String(s.low));
    s.rate = Math.min(Math.max(finite(q.get("rate"), 0.03), 0), 10);
    this.rate.set(s.rate);
    this.stride.set(1);
    this.a.player.stride = this.b.player.stride = 1; // The steps of a link are one a frame.
    s.compare = q.has("b");
    s.shared = this.shared.checked = q.get("scale") !== "0";
    this.showCompare();
    this.touched = true;
    this.at = q.get("at") || "";
    this.reads++;
    this.sampled();
    this.clear();
    for (const side of [this.a, this.b]) side.range = side.push = 0;
    await this.b.read(q.get("b") || this.b.text);
    await this.a.read(q.get("a") || q.get("rule") || this.a.text);
    const steps = Math.min(finite(q.get("steps"), 0), 2000);
    if (steps > 0) {
      this.each((side) => { side.linked = steps; if (this.startFlow(side)) { side.player.wanted = steps; side.player.advance(); } });
      if (this.embed && !faults.length) {
        this.note.textContent = `${plural(steps, "step")} of the points …`;
        this.arrived(steps).then((yes) => { if (yes) this.note.textContent = ""; });
      }
    }
    if (q.has("story") || Tour.story) Tour.show(q.get("story") || "");
    return true;
  },
};
