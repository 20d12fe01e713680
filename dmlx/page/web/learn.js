"use strict";
// A network's head learns in the page: a linear layer on frozen features of minicar, trained by the rule or loss of the workbench, A beside B.

const Learn = {
  begin(engine) {
    Object.assign(this, {engine, playing: false, seen: true, chunk: 5, rate: 0.5, dim: 16, seed: 1});
    const card = el("div.card", {}, el("h4", {}, "A linear layer learns on frozen features of drawn cars")), root = this.root = el("div.learn", {id: "learn"}, card);
    this.curves = new Curves();
    Object.assign(this.curves, {xTitle: "steps", xRange: [0, 50], yRange: [0, 100], title: "Recall@1, in percent"});
    this.view = new View(card, this.curves, {name: "recall", ratio: 0.56, most: 340});
    this.line = el("p.readout", {}, "Press Train.");
    this.problem = el("p.problem", {role: "alert"});
    this.button = button("Train", () => this.play(!this.playing), {class: "action main"});
    const again = () => this.reset(), of = (name, label, min, max, step, help) => slider({label, name: `learn-${name}`, min, max, step, value: this[name], help,
      on: (v) => { this[name] = v; if (name !== "rate") again(); }}).root;
    const dims = choice({label: "dimensions", name: "learn-dim", value: String(this.dim), options: [["3", "3 (sphere)"], ["8", "8"], ["16", "16"], ["64", "64"]], help: "Of the embedding",
      on: (v) => { this.dim = Number(v); again(); }});
    card.append(this.line, el("div.controls", {role: "group", "aria-label": "Training"}, this.button, button("Step", () => this.step()), button("Reset", again),
      of("rate", "learning rate", 0.05, 3, 0.05, "Of gradient descent. It acts at once."), dims.root, of("seed", "seed", 1, 20, 1, "Of the first weights and of the batches")), this.problem);
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
    whenSeen(root, (seen) => { this.seen = seen; this.run(); });
    document.addEventListener("visibilitychange", () => this.run());
  },

  // reset puts all weights at the start of the seed.
  reset() {
    this.version = (this.version || 0) + 1; // Answers under way are no longer wanted.
    this.wanted = 0;
    for (const side of [Bench.a, Bench.b]) {
      Object.assign(side.learn, {weight: undefined, bias: undefined, at: 0, steps: [], recall: [], by: "", changed: 0});
      Object.assign(side.learn.picture, {F: null, n: 0, dim: 0, labels: null, before: [], basis: null, lit: null});
      side.learn.line.textContent = "";
      side.learn.view.draw();
    }
    this.problem.textContent = "";
    this.show();
    this.run();
  },

  play(on) {
    this.playing = on;
    this.button.textContent = on ? "Pause" : "Train";
    this.problem.textContent = "";
    this.run();
  },

  step() { this.wanted = (this.wanted || 0) + 1; this.problem.textContent = ""; this.run(); },

  // load gives the worker the features, once, when they are first wanted.
  load() {
    this.loaded = this.loaded || (async () => {
      this.line.textContent = "Loading the features …";
      this.about = await this.engine.call("learnFrom", {features: await DMLX.load("features.gz", "dmlx-features")});
      await this.loadImages();
    })().catch((error) => { this.loaded = null; throw error; });
    return this.loaded;
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

  // run trains while there is something to do and someone to see it, the side that is behind first.
  async run() {
    if (this.running) return;
    this.running = true;
    try {
      while ((this.playing || this.wanted > 0) && this.seen && !document.hidden) {
        await this.load();
        const side = Bench.sides.reduce((x, y) => y.learn.at < x.learn.at || !y.learn.recall.length && x.learn.recall.length ? y : x), l = side.learn;
        const {version} = this, steps = !l.recall.length ? 0 : this.playing ? this.chunk - l.at % this.chunk : 1; // The first picture is of the start.
        const r = await this.engine.call("learn", {...side.subject, weight: l.weight, bias: l.bias, dim: this.dim, seed: this.seed, rate: this.rate, step: l.at, steps, measure: true});
        if (version !== this.version) continue;
        this.took(side, r);
        if (steps && this.wanted > 0 && Bench.sides.every((s) => s.learn.at >= l.at)) this.wanted--;
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

  // took shows an answer.
  took(side, r) {
    const l = side.learn;
    this.chunk = r.ms > 150 ? 20 : 5; // Where measuring takes long, it is done less often.
    if (l.by && l.by !== r.name) l.changed = l.at;
    Object.assign(l, {weight: r.weight, bias: r.bias, at: r.step, by: r.name});
    l.steps.push(r.step);
    l.recall.push(100 * r.recall);
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
    if (this.about && sides.length) curves.series.push({x: [0, last / 2, last], y: [1, 1, 1].map(() => 100 * this.about.recall), color: "quiet", dash: [2, 4], width: 1.4, name: "the features themselves"});
    const all = curves.series.flatMap((s) => s.y);
    if (all.length) curves.yRange = [10 * Math.floor(Math.min(...all) / 10), 10 * Math.ceil((Math.max(...all) + 2) / 10)];
    const said = sides.map((s) => `${names(s)}: ${number(s.learn.recall[s.learn.recall.length - 1], 1)} % after ${s.learn.at} steps, ${number(s.learn.recall[0], 1)} % at the start`);
    this.line.textContent = said.length ? `${said.join("; ")}.` : "Press Train.";
    if (said.length) announce(this.line.textContent);
    if (said.length && parent !== window) parent.postMessage({dmlx: "said", text: this.line.textContent}, "*"); // It stays in a notebook.
    this.view.draw();
  },
};
