"use strict";
// A form that trains a rule beside others, in a notebook: its program trains, and this draws.

const Try = {
  async begin(engine, about, state) {
    const text = decodeURIComponent(/[#&]a=([^&]*)/.exec(state)?.[1] || "cos/con/con"), {rule} = await engine.call("parse", {rule: text});
    Object.assign(this, {engine, about, rule});
    const change = () => { this.tauSlider.enable(this.usesTau); this.ask(""); };
    const parts = Object.values(partChoices(about, rule, (key, v) => { rule[key] = v; change(); })).map((c) => c.root);
    const {min, max, step} = about.options.find((o) => o.name === "tau");
    this.tauSlider = slider({label: "τ", name: "tau", min, max, step, value: rule.options.tau, on: (v) => { rule.options.tau = v; }, settle: () => this.ask("")});
    this.data = choice({label: "data set", name: "data", options: about.data.map((d) => [d, d]), value: about.data[0], on: () => {}});
    const network = check({label: "the real network", name: "network"}), ticks = about.rows.map((row) => check({label: row, name: "row", value: about.ticked.includes(row), on: () => this.ask("")}));
    const count = el("summary"), rows = el("details.rows", {open: true}, count, el("div", {}, ...ticks.map((t) => t.root)));
    Object.assign(this, {network: network.box, ticks: ticks.map((t) => t.box), all: about.rows});
    this.counted = () => { count.textContent = `Beside it: ${this.rows.length} of ${this.ticks.length} rows`; };
    this.curves = new Curves();
    Object.assign(this.curves, {xTitle: "epochs", title: "Recall@1 of the test set, %"});
    this.problem = el("p.problem", {role: "alert"});
    this.note = el("p.readout.note", {role: "status"});
    this.chartNote = el("p.about");
    this.below = el("div.below");
    const root = document.getElementById("try");
    root.append(el("p.about", {}, about.about), el("div.controls", {}, ...parts, this.tauSlider.root, this.data.root,
      network.root, button("Train", () => this.ask("train"), {name: "train", class: "action main"}), button("Clear the leaderboard", () => this.ask("clear"), {name: "clear"})), rows, this.problem);
    this.view = new View(root, this.curves, {name: "recall", ratio: 0.92, most: 420});
    root.append(this.chartNote, this.note, this.below);
    change();
  },

  get rows() { return this.all.filter((_, i) => this.ticks[i].checked); },

  get usesTau() { return chosenParts(this.about, this.rule).some((p) => p.uses.includes("tau")); },

  async ask(press) {
    const {direction, pair, triplet, mask, options} = this.rule, name = `${direction}/${pair}/${triplet}${mask ? "+" + mask : ""}${this.usesTau ? `?tau=${options.tau}` : ""}`;
    this.counted();
    clearTimeout(this.again);
    try {
      const v = await this.engine.latest("try", "try", {rule: name, rows: this.rows, data: this.data.value, network: this.network.checked, press});
      if (!v) return press && this.ask(press); // A press is not lost.
      this.problem.textContent = v.problem;
      this.note.textContent = v.note;
      if (v.below !== this.shown) this.below.innerHTML = this.shown = v.below;
      this.draw(v.chart);
      if (v.more) this.again = setTimeout(() => this.ask(""), 250);
    } catch (error) {
      this.problem.textContent = error.message;
    }
  },

  draw({about, epochs, reference, groups}) {
    const colors = ["accent", "positive", "negative", "turn", ...Theme.get().classes.slice(4)], x = (y) => y.map((_, i) => i + 1);
    const series = groups.flatMap(({name, curves}, k) => {
      const known = (curves || []).filter((c) => c?.length), n = Math.max(0, ...known.map((c) => c.length));
      const mean = Array.from({length: n}, (_, i) => { const at = known.filter((c) => i < c.length); return at.reduce((s, c) => s + c[i], 0) / at.length; });
      return n ? [...known.map((y) => ({x: x(y), y, color: colors[k % colors.length], width: 0.6})), {x: x(mean), y: mean, color: colors[k % colors.length], width: 3, name: `${name}: ${number(mean[n - 1], 1)}`, at: 0.3 + 0.2 * (k % 4)}] : [];
    });
    if (reference !== null) series.push({x: [1, epochs], y: [reference, reference], color: "quiet", dash: [4, 3], width: 1.4, name: `the features, no head: ${number(reference, 1)}`, at: 0.5});
    const all = series.flatMap((s) => Array.from(s.y)), low = Math.min(...all), high = Math.max(...all), room = 0.1 * (high - low) + 0.5;
    Object.assign(this.curves, {series, xRange: [1, Math.max(epochs, 2)], yRange: all.length ? [low - room, high + room] : [0, 100]});
    this.chartNote.textContent = about;
    this.view.draw();
  },
};
