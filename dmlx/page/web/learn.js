"use strict";
// A network's head learns in the page: a linear layer on frozen features of minicar, trained by the rule or loss of the workbench, A beside B.

// Trainer takes steps of heads while there is something to do and someone to see it, the run that is behind first. What trains by it has a button,
// its verb, a line for what is told, a problem, a rate and a dim; runs() are its heads and took(run, answer) shows one.
const Trainer = {
  playing: false, seen: true, wanted: 0, version: 0,

  // fresh is a run at the start.
  fresh: () => ({weight: undefined, bias: undefined, at: 0, steps: [], recall: []}),

  watch(root) {
    whenSeen(root, (seen) => { this.seen = seen; this.run(); });
    document.addEventListener("visibilitychange", () => this.run());
  },

  // forget drops the answers under way, as of runs that start anew.
  forget() {
    this.version++;
    this.wanted = 0;
    this.problem.textContent = "";
  },

  play(on) {
    this.playing = on;
    this.button.textContent = on ? "Pause" : this.verb;
    this.problem.textContent = "";
    this.run();
  },

  step() { this.wanted++; this.problem.textContent = ""; this.run(); },

  // load gives the worker the features, once, when they are first wanted.
  load() {
    Trainer.loaded = Trainer.loaded || (async () => {
      this.line.textContent = "Loading the features …";
      Trainer.about = await this.engine.call("learnFrom", {features: await DMLX.load("features.gz", "dmlx-features")});
    })().catch((error) => { Trainer.loaded = null; throw error; });
    return Trainer.loaded;
  },

  async run() {
    if (this.running) return;
    this.running = true;
    try {
      while ((this.playing || this.wanted > 0) && this.seen && !document.hidden) {
        await this.load();
        const run = this.runs().reduce((x, y) => y.at < x.at || !y.recall.length && x.recall.length ? y : x);
        const {version} = this, steps = !run.recall.length ? 0 : this.playing ? this.chunk - run.at % this.chunk : 1; // The first picture is of the start.
        const r = await this.engine.call("learn", {...run.subject, weight: run.weight, bias: run.bias, dim: this.dim, seed: run.seed, rate: this.rate, step: run.at, steps, measure: true});
        if (version !== this.version) continue;
        Object.assign(run, {weight: r.weight, bias: r.bias, at: r.step});
        run.steps.push(r.step);
        run.recall.push(100 * r.recall);
        if (steps && this.wanted > 0 && this.runs().every((x) => x.at >= run.at)) this.wanted--;
        this.took(run, r);
        await new Promise(requestAnimationFrame);
      }
    } catch (error) {
      this.play(false);
      this.wanted = 0;
      this.show();
      this.problem.textContent = error.message;
    } finally {
      this.running = false;
    }
  },

  // reference is the line of the features themselves, to a last step.
  reference(last) {
    const {recall, features} = Trainer.about, name = this.dim < features ? `all ${features} features` : "the features themselves";
    return {x: [0, last / 2, last], y: [1, 1, 1].map(() => 100 * recall), color: "quiet", dash: [2, 4], width: 1.4, name};
  },

  // room is a range of percents around all of some curves.
  room(series) {
    const all = series.flatMap((s) => s.y);
    return all.length ? [10 * Math.floor(Math.min(...all) / 10), 10 * Math.ceil((Math.max(...all) + 2) / 10)] : [0, 100];
  },
};

const Learn = {
  __proto__: Trainer, verb: "Train",

  begin(engine) {
    Object.assign(this, {engine, chunk: 5, rate: 0.5, dim: 64, seed: 1});
    const card = el("div.card", {}, el("h4", {}, "A linear layer learns on frozen features of drawn cars")), root = this.root = el("div.learn", {id: "learn"}, card);
    this.curves = new Curves();
    Object.assign(this.curves, {xTitle: "steps", xRange: [0, 50], yRange: [0, 100], title: "Recall@1, in percent"});
    this.view = new View(card, this.curves, {name: "recall", ratio: 0.56, most: 340});
    this.line = el("p.readout", {}, "Press Train.");
    this.problem = el("p.problem", {role: "alert"});
    this.button = button("Train", () => this.play(!this.playing), {class: "action main"});
    const again = () => this.reset(), of = (name, label, min, max, step, help) => slider({label, name: `learn-${name}`, min, max, step, value: this[name], help,
      on: (v) => { this[name] = v; if (name !== "rate") again(); }}).root;
    const dims = choice({label: "dimensions", name: "learn-dim", value: String(this.dim), options: [["3", "3 (sphere)"], ["8", "8"], ["16", "16"], ["64", "64"]], help: "Of the embedding, which starts as the first features",
      on: (v) => { this.dim = Number(v); again(); }});
    card.append(this.line, el("div.controls", {role: "group", "aria-label": "Training"}, this.button, button("Step", () => this.step()), button("Reset", again),
      of("rate", "learning rate", 0.05, 3, 0.05, "Of gradient descent. It acts at once."), dims.root, of("seed", "seed", 1, 20, 1, "Of the batches")), this.problem);
    document.getElementById("workbench").append(root);
    for (const side of [Bench.a, Bench.b]) {
      const picture = new Swarm(), card = el("div.card"), label = el("p.of"), view = new View(card, picture, {name: "embeddings", ratio: 0.92, most: Bench.view ? 400 : 620,
        on: {turn: (dx, dy) => turnSwarm(picture, view, dx, dy), point: (hit) => hit && this.point(hit.point)},
        keys: (e) => e.shiftKey ? turnKeys(e, picture, view) : Bench.cycle(e, picture.n, (i) => this.point(i))});
      card.prepend(label);
      picture.title = "Embeddings of test images";
      side.learn = {picture, view, card, line: el("p.readout")};
      card.append(side.learn.line);
      side.headings.push(label);
      root.append(card);
    }
    this.reset();
    Bench.showCompare();
    this.watch(root);
  },

  // runs are the heads of A and, beside it, B.
  runs() { return Bench.sides.map(({learn, subject}) => Object.assign(learn, {subject, seed: this.seed})); },

  // reset puts all weights at the start.
  reset() {
    this.forget();
    for (const side of [Bench.a, Bench.b]) {
      Object.assign(side.learn, this.fresh(), {by: "", changed: 0});
      Object.assign(side.learn.picture, {F: null, n: 0, dim: 0, labels: null, before: [], basis: null, lit: null});
      side.learn.line.textContent = "";
      side.learn.view.draw();
    }
    this.show();
    this.run();
  },

  // load also gets the images.
  load() {
    this.images = this.images || Trainer.load.call(this).then(() => this.loadImages()).catch((error) => { this.images = null; throw error; });
    return this.images;
  },

  // loadImages cuts the sheet of test images, 32 pixels wide each, in rows of 20.
  async loadImages() {
    const sheet = await createImageBitmap(new Blob([await DMLX.load("cars.png", "dmlx-cars")])).catch(() => { throw new Error("cars.png is damaged: reload the page."); });
    const size = 32, row = sheet.width / size;
    const images = Array.from({length: row * sheet.height / size}, (_, i) => {
      const c = Object.assign(document.createElement("canvas"), {width: size, height: size});
      c.getContext("2d").drawImage(sheet, i % row * size, Math.floor(i / row) * size, size, size, 0, 0, size, size);
      return c;
    });
    for (const side of [Bench.a, Bench.b]) side.learn.picture.images = images;
  },

  // point shows an image's nearest positive and nearest negative, on both sides.
  point(i) {
    this.anchor = i;
    for (const {learn} of Bench.sides) { learn.picture.lightNearest(i); learn.view.draw(); }
  },

  // took shows an answer.
  took(l, r) {
    this.chunk = r.ms > 150 ? 20 : 5; // Where measuring takes long, it is done less often.
    if (l.by && l.by !== r.name) l.changed = l.steps[l.steps.length - 2];
    l.by = r.name;
    if (l.steps.length > 400) for (const key of ["steps", "recall"]) l[key] = l[key].filter((_, i) => i % 2 === 0);
    const p = l.picture, last = r.sap.length - 1;
    p.before = p.F && p.dim === 3 ? [...p.before.slice(-4), p.F] : [];
    Object.assign(p, {F: r.F, n: r.n, dim: r.dim, labels: r.labels});
    if (r.dim > 3) p.look();
    p.lightNearest(this.anchor || 0);
    p.title = `${r.n} images, ${new Set(r.labels).size} classes`;
    l.line.replaceChildren(symbol(last < 0 ? "at the start" : `last batch: S_{ap} ${number(r.sap[last], 2)}, S_{an} ${number(r.san[last], 2)}, ${number(100 * r.violations[last], 0)} % hard` +
      (l.changed ? `; rule changed at step ${l.changed}` : "")));
    l.view.draw();
    this.show();
  },

  // show draws the curves.
  show() {
    if (!this.view) return;
    Bench.b.learn.card.hidden = !Bench.state.compare;
    this.root.classList.toggle("compared", Bench.state.compare);
    const {curves} = this, sides = Bench.sides.filter((s) => s.learn.recall.length), last = Math.max(50, ...sides.map((s) => s.learn.at));
    const names = (s) => (Bench.state.compare ? `${s.letter.toUpperCase()}: ` : "") + s.learn.by;
    curves.xRange = [0, last];
    curves.series = sides.map((s) => ({x: s.learn.steps, y: s.learn.recall, color: s.letter === "a" ? "positive" : "negative", dash: s.letter === "a" ? undefined : [7, 4], width: 2.4,
      name: names(s)}));
    if (sides.length) curves.series.push(this.reference(last));
    curves.yRange = this.room(curves.series);
    const said = sides.map((s) => `${names(s)}: ${number(s.learn.recall[s.learn.recall.length - 1], 1)} % after ${s.learn.at} steps, ${number(s.learn.recall[0], 1)} % at the start`);
    this.line.textContent = said.length ? `${said.join("; ")}.` : "Press Train.";
    if (said.length) announce(this.line.textContent);
    if (said.length && parent !== window) parent.postMessage({dmlx: "said", text: this.line.textContent}, "*"); // It stays in a notebook.
    this.view.draw();
  },
};

// Race trains heads by the four directions from the same start and batches, a seed after another.
const Race = {
  __proto__: Trainer, verb: "Start", chunk: 20, rate: 0.5, dim: 64, pair: "con", triplet: "con",
  finish: 200, seeds: 3, corner: 0.8, before: "", // What the last one ended with.
  lanes: [["cos", "positive"], ["euc", "negative"], ["cos-orth", "turn"], ["euc-orth", "accent"]],

  begin(engine, {pairs, triplets}) {
    this.engine = engine;
    const root = this.root = document.getElementById("lanes"), chart = el("div.card"), again = () => this.reset();
    const of = (name, label, list) => choice({label, name: `race-${name}`, value: this[name], options: list.map((p) => [p.name, p.name]), help: "Of all four", on: (v) => { this[name] = v; again(); }}).root;
    this.button = button(this.verb, () => this.play(!this.playing), {class: "action main"});
    this.line = el("p.readout");
    this.problem = el("p.problem", {role: "alert"});
    root.before(el("div.controls", {role: "group", "aria-label": "Race"}, this.button, button("Step", () => this.step()), button("Reset", again),
      of("pair", "pair weight", pairs), of("triplet", "triplet weight", triplets),
      slider({label: "learning rate", name: "race-rate", min: 0.05, max: 3, step: 0.05, value: this.rate, help: "Of all four", on: (v) => { this.rate = v; again(); }}).root), this.problem);
    this.diagrams = this.lanes.map(([title, ink]) => {
      const picture = Object.assign(new Diagram(), {title, ink, corner: this.corner, low: 0.25}), card = el("div.card"), view = new View(card, picture, {name: `race-${title}`, ratio: 1, most: 330});
      const line = el("p.readout");
      card.append(line);
      root.append(card);
      return {picture, view, line};
    });
    this.curves = Object.assign(new Curves(), {xTitle: "steps", xRange: [0, this.finish], title: "Recall@1, in percent"});
    root.after(chart, this.line);
    this.view = new View(chart, this.curves, {name: "race-recall", ratio: 0.45, most: 270});
    this.reset();
    this.watch(root.parentElement);
  },

  reset() {
    this.forget();
    this.heats = [];
    this.heat();
    this.show();
    this.run();
  },

  // heat puts all four at the start, with the batches of the next seed.
  heat() {
    this.heats.push(this.lanes.map(([direction]) => ({...this.fresh(), subject: {rule: `${direction}/${this.pair}/${this.triplet}`}, seed: this.heats.length + 1})));
  },

  runs() { return this.heats[this.heats.length - 1]; },

  // ended are the heats in which all have finished.
  get ended() { return this.heats.filter((h) => h.every((run) => run.at >= this.finish)); },

  play(on) {
    if (on && this.ended.length === this.seeds) this.reset();
    Trainer.play.call(this, on);
  },

  step() {
    if (this.ended.length === this.seeds) this.reset();
    Trainer.step.call(this);
  },

  took(run, r) {
    run.triplets = {sap: r.positive, san: r.negative, count: r.positive.length};
    run.crowded = 100 * r.positive.reduce((n, s, i) => n + (Math.min(s, r.negative[i]) > this.corner), 0) / r.positive.length;
    if (run.at === 0) this.crowded = run.crowded;
    this.show();
    if (this.ended.length < this.heats.length) return;
    if (this.heats.length < this.seeds) return this.heat();
    this.play(false);
    this.before = ` Before, by ${this.pair}/${this.triplet} at the rate ${number(this.rate, 2)}: ` + this.lanes.map(([name], k) =>
      `${name} ${number(meanOf(this.heats.map((h) => h[k].crowded)), 1)} % crowded, Recall@1 ${number(meanOf(this.at(k).pop().values), 1)} %`).join("; ") + ".";
  },

  // at is the recall of a direction in the heats that have ended, at each step that all of them have: {s, values [heats]}.
  at(k) {
    const runs = this.ended.map((h) => h[k]);
    return runs.length ? runs[0].steps.filter((s) => runs.every((r) => r.steps.includes(s))).map((s) => ({s, values: runs.map((r) => r.recall[r.steps.indexOf(s)])})) : [];
  },

  show() {
    const last = this.heats.findLast((h) => h.some((run) => run.triplets)), curves = [];
    this.diagrams.forEach(({picture, view, line}, k) => {
      const run = last?.[k];
      picture.triplets = run?.triplets || null;
      line.textContent = run?.triplets ? `${number(run.crowded, 0)} % crowded; Recall@1 ${number(run.recall[run.recall.length - 1], 1)} %` : " ";
      view.draw();
    });
    this.lanes.forEach(([name, color], k) => {
      const whole = this.at(k), mean = whole.length ? whole.map(({s, values}) => [s, meanOf(values)]) : (last?.[k].steps || []).map((s, i) => [s, last[k].recall[i]]);
      if (whole.length) for (const h of this.heats) curves.push({x: h[k].steps, y: h[k].recall, color, width: 0.8});
      if (mean.length) curves.push({x: mean.map(([s]) => s), y: mean.map(([, v]) => v), color, width: 2.6, name});
    });
    if (curves.length) curves.push(this.reference(this.finish));
    this.curves.series = curves;
    this.curves.yRange = this.room(curves);
    this.view.draw();
    this.line.textContent = this.said();
    if (this.ended.length) announce(this.line.textContent);
  },

  // said is what the seeds tell of the differences of recall, by 95 % intervals of the means of the differences within seeds.
  said() {
    const n = this.ended.length, run = this.runs();
    if (n < this.seeds) return run[0].at || n ? `Seed ${this.heats.length} of ${this.seeds}: ${Math.min(...run.map((r) => r.at))} of ${this.finish} steps.${this.before}` : `Press Start.${this.before}`;
    const told = (values) => `${number(meanOf(values), 1)} ± ${number(deviation(values), 1)} %`, noise = (values) => 4.303 * deviation(values) / Math.sqrt(n); // Student's t for three seeds.
    const all = this.lanes.map(([name], k) => ({name, values: this.at(k).pop().values, crowded: this.heats.map((h) => h[k].crowded)}));
    const [best, ...others] = [...all].sort((a, b) => meanOf(b.values) - meanOf(a.values));
    return `After ${this.finish} steps, mean ± standard deviation of ${n} seeds. Crowded: ${number(this.crowded, 1)} % at the start, ${all.map(({name, crowded}) => `${name} ${told(crowded)}`).join(", ")}. ` +
      `Recall@1: ${all.map(({name, values}) => `${name} ${told(values)}`).join(", ")}; the features themselves ${number(100 * Trainer.about.recall, 1)} %. Differences within seeds, with 95 % intervals: ` + others.map(({name, values}) => {
      const by = best.values.map((v, i) => v - values[i]), wide = noise(by);
      return `${best.name} is ${number(meanOf(by), 1)} ± ${number(wide, 1)} points ahead of ${name}: ${meanOf(by) > wide ? "beyond" : "within"} the noise of the seeds`;
    }).join("; ") + ". All four share one rate, at which a Euclidean step is larger, so this does not rank the directions. What it shows is the crowding.";
  },
};

const meanOf = (values) => values.reduce((s, v) => s + v, 0) / values.length;
const deviation = (values) => Math.sqrt(values.reduce((s, v) => s + (v - meanOf(values)) ** 2, 0) / (values.length - 1));
