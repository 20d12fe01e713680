"use strict";
// The eight steps. Each figure is live: it asks the worker for its numbers when it comes on the screen and when something is moved.

const Story = {
  engine: null,

  begin(engine) {
    this.engine = engine;
    for (const [name, make] of Object.entries(this.figures)) {
      const figure = document.querySelector(`[data-figure=${name}]`);
      if (!figure.offsetParent) continue; // In a frame that shows another part.
      make.call(this, figure, figure.closest("section"));
    }
  },

  // guard shows a problem under a figure instead of losing it.
  guard(figure, f) {
    const line = el("p.problem", {role: "alert"});
    figure.append(line);
    return async (...args) => {
      try {
        await f(...args);
        line.textContent = "";
      } catch (error) {
        line.textContent = error.message;
      }
    };
  },

  // challenge returns a function that tells how near its answer is.
  challenge(section) {
    const box = section.querySelector(".challenge"), result = el("p.result"), dot = document.querySelector(`.dots a[href="#${section.id}"]`);
    box.append(result);
    let solved = false;
    return (right, text) => {
      result.replaceChildren(symbol(text));
      if (right && !solved) {
        solved = true;
        box.classList.add("solved");
        dot.classList.add("solved");
        dot.setAttribute("aria-label", `${dot.title}, solved`);
        announce(`Solved. ${plain(text)}`);
      }
    };
  },

  pictures(figure, kind) {
    const root = el(`div.pictures${kind ? "." + kind : ""}`);
    figure.prepend(root);
    return root;
  },

  // readout is the line of numbers under a figure; beside three pictures there is room for it in the grid.
  readout(figure, beside) {
    const p = el("p.readout");
    (beside || figure).append(p);
    return (text) => p.replaceChildren(symbol(text));
  },

  figures: {
    start(figure) {
      const swarm = new Swarm();
      const view = new View(this.pictures(figure), swarm, {name: "flow", ratio: 0.82, on: {turn: (dx, dy) => turnSwarm(swarm, view, dx, dy)},
        keys: (e) => turnKeys(e, swarm, view)});
      const play = button("Play", () => toggle(!player.playing)), rule = {rule: "cos/con/con"};
      let first = null;
      const restart = async () => {
        if (!first) {
          const r = await this.engine.call("compute", {...rule, sample: {classes: 8, images: 6, dim: 3, noise: 0.7, seed: 1}});
          first = {F: r.f, n: r.n, dim: r.dim, labels: r.labels};
        }
        Object.assign(swarm, {...first, before: [], history: null});
        player.begin(first, rule, 0.03);
        swarm.history = player.history;
        show();
      };
      const show = () => { Object.assign(swarm, {F: player.F, before: player.before}); swarm.history = player.steps ? player.history : null; view.draw(); };
      const player = new FlowPlayer(this.engine, {limit: 320, problem: (text) => announce(text), frame: () => {
        if (player.playing) swarm.turnY += 0.004;
        show();
        if (player.steps >= player.limit) label();
      }});
      const label = () => { play.textContent = player.playing ? "Pause" : "Play"; };
      const toggle = (on) => {
        if (on && player.steps >= player.limit) restart();
        if (on) player.play(); else player.pause();
        label();
      };
      figure.querySelector("figcaption").before(el("div.controls", {}, play, button("Restart", () => restart())));
      this.guard(figure, async () => {
        await restart();
        whenSeen(view.root, (seen) => { player.visible = seen; });
        if (!reducedMotion()) toggle(true);
      })();
    },

    step1(figure, section) {
      const pictures = this.pictures(figure, "two"), tell = this.challenge(section), readout = this.readout(figure);
      const first = {anchor: 0, positive: 1.15, negative: -1.5}, state = {...first}, rule = "cos/con/con", rate = 0.25;
      const circle = new Circle(), diagram = new Diagram();
      circle.title = "One triplet on the unit circle";
      diagram.title = "The same triplet";
      const views = [new View(pictures, circle, {name: "step-on-circle"}), new View(pictures, diagram, {name: "triplet"})];
      triangle(views[0], state, () => update());
      diagramHandle(views[1], () => similarities(state), (sap, san) => { placeBy(state, sap, san); update(); }, "The triplet in the diagram");
      const to = (text, place) => button(text, () => { Object.assign(state, place()); update(); });
      figure.append(el("div.controls", {}, to("Take a step", () => ghost), to("Reset", () => first)));
      let ghost = {...state};
      const update = this.guard(figure, async () => {
        const r = await this.engine.latest("step1", "compute", {rule, ...triplet(state)});
        if (!r) return;
        ghost = showTriplet(circle, state, r, rate);
        const {sap, san} = similarities(state);
        diagram.marks = [{sap, san}];
        drawAll(...views);
        readout(`S_{ap} ${number(sap, 2)}, S_{an} ${number(san, 2)}. Rings mark the points after a step.`);
        tell(san > sap, san > sap ? `S_{an} ${number(san, 2)} is above S_{ap} ${number(sap, 2)}: the point is above the diagonal.` :
          `S_{an} ${number(san, 2)} is below S_{ap} ${number(sap, 2)}.`);
      });
      once(section, this.guard(figure, async () => {
        diagram.arrows = await this.engine.call("field", {rule, low: 0, high: 1, side: 11, rate: 0.1});
        await update();
      }));
    },

    step2(figure, section) {
      const pictures = this.pictures(figure, "two"), tell = this.challenge(section), readout = this.readout(figure);
      const circle = new Circle(), curves = new Curves(), state = {angle: 1.75};
      circle.title = "Directions of the positive’s step";
      circle.length = 0.75;
      Object.assign(curves, {title: "Part that turns the embedding", xTitle: "similarity S of the pair", xRange: [-1, 1], yRange: [0, 1.05]});
      const a = new View(pictures, circle, {name: "directions"}), b = new View(pictures, curves, {name: "strength"});
      circleHandle(a, "Positive", state, "angle", () => update());
      // strengths measures the turning part of the positives' unit gradients. Row 0 is the anchor, row 1 the negative.
      const strengths = async (key, rule, angles) => {
        const r = await this.engine.latest(key, "compute", {rule, ...manyPositives(angles)});
        return r && angles.map((angle, i) => {
          const [x, y] = [r.G[2 * (i + 2)], r.G[2 * (i + 2) + 1]], size = Math.hypot(x, y) || 1;
          return {x: -x / size, y: -y / size, turn: Math.abs(x / size * Math.cos(angle) - y / size * Math.sin(angle))};
        });
      };
      let dots = [];
      const update = this.guard(figure, async () => {
        const [euc, cos] = await Promise.all([strengths("step2euc", "euc/con/con", [state.angle]), strengths("step2cos", "cos/con/con", [state.angle])]);
        if (!euc || !cos) return;
        const S = Math.cos(state.angle);
        circle.points = [{angle: 0, role: "anchor", name: "a"},
          {angle: state.angle, role: "positive", name: "p", arrows: [{...euc[0], color: "negative", name: "euc"}, {...cos[0], color: "positive", name: "cos"}]}];
        const x = Array.from({length: 201}, (_, i) => -1 + i / 100);
        curves.series = [{x, y: x.map((s) => Math.sqrt((1 + s) / 2)), color: "negative", name: "euc", at: 0.3},
          {x, y: x.map((s) => Math.sqrt(Math.max(1 - s * s, 0))), color: "positive", name: "cos", at: 0.3}, ...dots];
        curves.marker = S;
        drawAll(a, b);
        readout(`S ${number(S, 2)}. Turning part: Euclidean ${number(euc[0].turn, 3)}, cosine ${number(cos[0].turn, 3)}.`);
        tell(Math.abs(euc[0].turn - cos[0].turn) < 0.012 && S > -0.9, Math.abs(euc[0].turn - cos[0].turn) < 0.012 && S > -0.9 ?
          `At S ${number(S, 2)} both parts are about ${number(euc[0].turn, 2)}. Nearer pairs are turned more by euc, farther ones by cos.` :
          `Euclidean ${number(euc[0].turn, 2)}, cosine ${number(cos[0].turn, 2)}.`);
      });
      once(section, this.guard(figure, async () => {
        const angles = Array.from({length: 25}, (_, i) => Math.PI * (i + 0.5) / 25);
        const [euc, cos] = [await strengths("step2a", "euc/con/con", angles), await strengths("step2b", "cos/con/con", angles)];
        const x = angles.map(Math.cos);
        dots = [{x, y: euc.map((s) => s.turn), color: "negative", dots: true}, {x, y: cos.map((s) => s.turn), color: "positive", dots: true}];
        await update();
      }));
    },

    step3(figure, section) {
      const pictures = this.pictures(figure, "two"), tell = this.challenge(section), readout = this.readout(figure);
      const left = new Circle(), right = new Circle(), steps = 80, rate = 0.06;
      const start = Array.from({length: 10}, (_, i) => (10 + 10 * i) * Math.PI / 180);
      left.upper = right.upper = true;
      const views = [new View(pictures, left, {name: "pull-euc", ratio: 0.74}), new View(pictures, right, {name: "pull-cos", ratio: 0.74})];
      right.title = "cos/con/con";
      left.turns = right.turns = false;
      left.length = right.length = 0.5;
      let paths = {}, at = 0, playing = false, version = 0;
      const turning = ([x, y], angle) => { // The part along the circle.
        const [ux, uy] = [Math.cos(angle), -Math.sin(angle)], along = x * ux + y * uy;
        return {x: along * ux, y: along * uy, color: "turn"};
      };
      // path follows the positives under the pull alone: anchor and negative stay. The anchor is row 0, the negative row 1.
      const path = async (rule) => {
        const all = [], mine = version;
        let angles = start;
        for (let k = 0; k <= steps; k++) {
          const r = await this.engine.call("compute", {rule: `${rule}?sum`, ...manyPositives(angles)});
          if (mine !== version) return null;
          all.push({angles, steps: angles.map((_, i) => [-r.G[2 * (i + 2)], -r.G[2 * (i + 2) + 1]])});
          angles = angles.map((angle, i) => {
            const [x, y] = [Math.sin(angle) + rate * all[k].steps[i][0], Math.cos(angle) + rate * all[k].steps[i][1]];
            return Math.atan2(x, y);
          });
        }
        return all;
      };
      const draw = () => {
        for (const [circle, key] of [[left, "left"], [right, "right"]]) {
          if (!paths[key]) continue;
          const p = paths[key][at];
          circle.points = [{angle: 0, role: "anchor", name: "a"}, ...p.angles.map((angle, i) =>
            ({angle, role: "positive", size: 5, chord: false, arrows: [turning(p.steps[i], angle)]}))];
        }
        views.forEach((v) => v.draw());
        if (!paths.left || !paths.right) return;
        const spread = (key) => { const a = paths[key][at].angles; return (Math.max(...a) - Math.min(...a)) * 180 / Math.PI; };
        readout(`After ${at} steps the positives spread over ${number(spread("left"), 1)}° (left) and ${number(spread("right"), 1)}° (right).`);
      };
      const scrub = slider({label: "steps", name: "steps", min: 0, max: steps, step: 1, value: 0, on: (v) => { playing = false; label(); at = v; draw(); }});
      const play = button("Play", () => { playing = !playing; if (playing && at >= steps) at = 0; label(); if (playing) requestAnimationFrame(tick); });
      const label = () => { play.textContent = playing ? "Pause" : "Play"; };
      let last = 0;
      const tick = (now) => {
        if (!playing) return;
        if (now - last > 45) {
          last = now;
          at = Math.min(at + 1, steps);
          scrub.set(at);
          draw();
          if (at >= steps) { playing = false; label(); return; }
        }
        requestAnimationFrame(tick);
      };
      const pair = choice({label: "euc with the pair weight", name: "pair", value: "con", options: ["con", "euc", "lin", "sig"].map((p) => [p, p]),
        on: () => follow()});
      figure.append(el("div.controls", {}, play, scrub.root, pair.root));
      const follow = this.guard(figure, async () => {
        version++;
        left.title = `euc/${pair.value}/con`;
        const l = await path(`euc/${pair.value}/con`);
        if (!l) return;
        paths.right = paths.right || await path("cos/con/con");
        paths.left = l;
        // What counts is the part that turns: along the circle.
        const turn = (p, i) => p.steps[i][0] * Math.cos(start[i]) - p.steps[i][1] * Math.sin(start[i]);
        const most = Math.max(...start.map((_, i) => Math.abs(turn(l[0], i) - turn(paths.right[0], i))));
        tell(most < 1e-3, most < 1e-3 ? `The pulls agree to ${number(most)}: the distance cancels.` :
          `euc/${pair.value}/con: the pulls differ by up to ${number(most, 2)}.`);
        draw();
      });
      once(section, async () => {
        await follow();
        if (at) draw(); // An address has said so.
        else if (reducedMotion()) { at = 70; scrub.set(at); draw(); } else { playing = true; label(); requestAnimationFrame(tick); }
      });
    },

    step4(figure, section) {
      const pictures = this.pictures(figure, "two"), tell = this.challenge(section), readout = this.readout(figure), side = 41;
      const pull = new Curves(), push = new Curves(), options = {alpha: 2, beta: 10, lambda: 0.5};
      Object.assign(pull, {title: "P_{+}: the pull", xTitle: "S_{ap}", yRange: [0, 1.5]});
      Object.assign(push, {title: "P_{−}: the push", xTitle: "S_{an}", yRange: [0, 1.5]});
      const views = [new View(pictures, pull, {name: "pull-weights"}), new View(pictures, push, {name: "push-weights"})];
      const weights = async (pair, options) => {
        const r = await this.engine.latest(`step4${pair}`, "diagram", {rule: {direction: "cos", pair, triplet: "con", mask: "", options}, low: 0, high: 1, side});
        return r && {positive: Array.from({length: side}, (_, i) => r.pairPositive[i]), negative: Array.from({length: side}, (_, j) => r.pairNegative[j * side])};
      };
      const look = {con: ["quiet", [2, 4], 0.1], euc: ["turn", [7, 4], 0.35], lin: ["positive", [], 0.2], sig: ["negative", [], 0.85]};
      const known = {}, x = Array.from({length: side}, (_, i) => i / (side - 1));
      const update = this.guard(figure, async () => {
        const sig = await weights("sig", options);
        if (!sig || !known.lin) return;
        known.sig = sig;
        for (const [picture, key] of [[pull, "positive"], [push, "negative"]]) {
          picture.series = Object.entries(look).map(([name, [color, dash, at]]) => ({x, y: known[name][key], color, dash, at, name, width: name === "sig" ? 2.8 : 1.8}));
        }
        pull.band = {x, low: known.lin.positive.map((v) => v - 0.1), high: known.lin.positive.map((v) => v + 0.1)};
        drawAll(...views);
        const most = Math.max(...x.map((_, i) => Math.abs(sig.positive[i] - known.lin.positive[i])));
        readout("The band is lin ± 0.1. sig has no P₊ above 1, and lin none below 0 here.");
        tell(most <= 0.1, `The largest difference of P₊ is ${number(most, 3)}${most <= 0.1 ? ": with this α, sig is nearly linear." : "."}`);
      });
      const sliders = [["alpha", "α", 0.5, 20, 0.1], ["beta", "β", 1, 40, 0.5], ["lambda", "λ", 0, 1, 0.01]].map(([name, label, min, max, step]) =>
        slider({label, name, min, max, step, value: options[name], on: (v) => { options[name] = v; update(); }}));
      figure.append(el("div.controls", {}, ...sliders.map((s) => s.root)));
      once(section, this.guard(figure, async () => {
        for (const pair of ["con", "euc", "lin"]) known[pair] = await weights(pair, {});
        await update();
        if (document.body.hasAttribute("data-picture")) return; // Alone, it asks for nothing.
        const rest = [...figure.children, section.querySelector(".challenge")], few = x.filter((_, i) => i % 5 === 0);
        const show = (on) => { for (const e of rest) e.hidden = !on; };
        show(false);
        figure.prepend(new Guess({question: "First draw yours: how strongly should a triplet pull its positive, P_{+}, at each similarity S_{ap}?", x: few, xTitle: "S_{ap}",
          answers: Object.entries(known).map(([name, {positive}]) => ({name, color: look[name][0], dash: look[name][1], x, y: positive}))}, () => show(true)).root);
      }));
    },

    step5(figure, section) {
      const pictures = this.pictures(figure, "two"), tell = this.challenge(section), readout = this.readout(figure);
      const circle = new Circle(), bars = new Bars();
      circle.title = "An anchor and its batch";
      circle.upper = true;
      bars.title = "Pair weights of the anchor’s triplet";
      const rad = (d) => d * Math.PI / 180, first = [0, 25, 75, -40, -49, -59].map(rad), angles = [...first], labels = [0, 0, 0, 1, 2, 3];
      const a = new View(pictures, circle, {name: "rivals", ratio: 0.8}), b = new View(pictures, bars, {name: "pair-weights", ratio: 0.8});
      const names = ["", "", "the other positive", "", "a gray negative", "another gray negative"];
      for (const i of [2, 4, 5]) circleHandle(a, names[i], angles, i, () => update());
      figure.append(el("div.controls", {}, button("Reset", () => { first.forEach((v, i) => { angles[i] = v; }); update(); })));
      const update = this.guard(figure, async () => {
        const batch = {embeddings: Float32Array.from(angles.flatMap((v) => [Math.sin(v), Math.cos(v)])), labels: Int32Array.from(labels), n: 6, dim: 2};
        const [lin, ms] = await Promise.all([this.engine.latest("step5lin", "compute", {rule: "cos/lin/con", ...batch}),
          this.engine.latest("step5ms", "compute", {rule: "cos/lin-ms/con", ...batch})]);
        if (!lin || !ms) return;
        const k = lin.triplets.anchor.indexOf(0), p = lin.triplets.positive[k], n = lin.triplets.negative[k];
        const S = (j) => lin.S[j]; // Of the anchor, row 0.
        const farthest = Math.min(S(1), S(2)), nearestNegative = Math.max(S(3), S(4), S(5));
        const counts = (j) => labels[j] === 0 ? S(j) < nearestNegative + 0.1 : S(j) > farthest - 0.1;
        circle.points = angles.map((angle, i) => ({angle, role: i === 0 ? "anchor" : i === p ? "positive" : i === n ? "negative" : "other",
          name: i === 0 ? "a" : i === p ? "p" : i === n ? "n" : labels[i] === 0 ? "p′" : "n′", chord: i === p || i === n || counts(i), arrows: []}));
        const bar = (r, key) => r.triplets[key][k];
        bars.groups = [{name: "P_{−}, the push", bars: [{name: "lin", value: bar(lin, "pairNegative"), color: "negative"}, {name: "lin-ms", value: bar(ms, "pairNegative"), color: "accent"}]},
          {name: "P_{+}, the pull", bars: [{name: "lin", value: bar(lin, "pairPositive"), color: "positive"}, {name: "lin-ms", value: bar(ms, "pairPositive"), color: "accent"}]}];
        bars.high = 1.3;
        drawAll(a, b);
        const ratio = bar(ms, "pairNegative") / bar(lin, "pairNegative"), rivals = [3, 4, 5].filter((j) => j !== n && counts(j)).length;
        readout(`${rivals} of 2 other negatives count: a dashed line joins them to the anchor. P₋ of lin-ms is ${number(ratio, 2)} times that of lin.`);
        const moved = p !== 1 || n !== 3;
        tell(ratio >= 1.295 && !moved, moved ? "Now another point is the nearest one of its kind. Move it back." :
          ratio >= 1.295 ? `${number(ratio, 2)} times: the negative leads its rivals by ${number(ratio - 1, 2)}.` :
            rivals === 0 ? "No gray negative counts any more: they are too far away." : `${number(ratio, 2)} times.`);
      });
      once(section, update);
    },

    step6(figure, section) {
      const pictures = this.pictures(figure, "two"), tell = this.challenge(section), readout = this.readout(figure);
      const cos = new Diagram(), cir = new Diagram(), marks = [{sap: 0.35, san: 0.75, label: "hard"}, {sap: 0.8, san: 0.3, label: "easy"}];
      cos.title = "T^{cos}"; cir.title = "T^{cir}";
      for (const d of [cos, cir]) Object.assign(d, {hue: "weight", range: [0, 1], marks});
      const views = [new View(pictures, cos, {name: "T-cos"}), new View(pictures, cir, {name: "T-cir"})];
      const state = {tau: 1};
      const update = this.guard(figure, async () => {
        const ask = (triplet) => this.engine.latest(`step6${triplet}`, "diagram", {rule: {direction: "cos", pair: "con", triplet, mask: "", options: {tau: state.tau}}, low: 0, high: 1, side: 81});
        const [a, b] = await Promise.all([ask("cos"), ask("cir")]);
        if (!a || !b) return;
        cos.values = a.weight; cir.values = b.weight; cos.side = a.side; cir.side = b.side;
        drawAll(...views);
        const [h, e] = marks.map((m) => cos.valueAt(m.sap, m.san)), [hc, ec] = marks.map((m) => cir.valueAt(m.sap, m.san));
        readout(`hard : easy — T^{cos} ${number(h, 3)} : ${number(e, 3)}, T^{cir} ${number(hc, 3)} : ${number(ec, 3)}`);
        tell(Math.abs(h / e - 10) < 0.5, `At τ = ${number(state.tau)} it has ${number(h / e, 1)} times the weight${h / e > 10.5 ? ": too much." : "."}`);
      });
      const tau = slider({label: "τ", name: "tau", min: 0, max: 16, step: 0.1, value: 1, on: (v) => { state.tau = v; update(); }});
      figure.append(el("div.controls", {}, tau.root));
      once(section, update);
    },

    step7(figure, section) {
      const pictures = this.pictures(figure, "three"), tell = this.challenge(section), beside = el("div.beside"), readout = this.readout(figure, beside);
      const masks = ["sc1", "sc2", "sc2-printed"], mark = {sap: 0.75, san: 0.35};
      const diagrams = masks.map((mask) => Object.assign(new Diagram(), {title: `pull under ${mask}`, hue: "pull", range: [0, 1], marks: [mark]}));
      const views = diagrams.map((d, i) => new View(pictures, d, {name: `mask-${masks[i]}`}));
      pictures.append(beside);
      views.forEach((v, i) => diagramHandle(v, () => mark, (sap, san) => { Object.assign(mark, {sap, san}); update(); }, `The triplet under ${masks[i]}`));
      const update = this.guard(figure, async () => {
        const batch = triplet(placeBy({anchor: 0}, mark.sap, mark.san));
        const pulls = await Promise.all(masks.map((mask) => this.engine.latest(`step7${mask}`, "compute", {rule: `cos/con/cos+${mask}`, ...batch})));
        if (pulls.some((r) => !r)) return;
        const pulled = pulls.map((r) => r.triplets.pairPositive[0] > 0);
        drawAll(...views);
        const word = (yes) => yes ? "pulls and pushes" : "only pushes";
        readout(`At S_{ap} ${number(mark.sap, 2)}, S_{an} ${number(mark.san, 2)}: sc1 ${word(pulled[0])}, sc2 ${word(pulled[1])}, sc2-printed ${word(pulled[2])}.`);
        const hard = mark.san > mark.sap;
        tell(hard && !pulled[1] && pulled[2], !hard ? "This triplet’s positive is nearer." : pulled[1] ? "The negative is nearer, but sc2 pulls this triplet." :
          "The printed formula still pulls this triplet, though its negative is nearer.");
      });
      once(section, this.guard(figure, async () => {
        for (let i = 0; i < masks.length; i++) {
          const r = await this.engine.call("diagram", {rule: `cos/con/cos+${masks[i]}`, low: 0, high: 1, side: 121});
          Object.assign(diagrams[i], {values: r.pull, side: r.side});
        }
        await update();
      }));
    },

    step8(figure, section) {
      const pictures = this.pictures(figure, "three"), tell = this.challenge(section), beside = el("div.beside"), readout = this.readout(figure, beside);
      const circle = new Circle(), loss = new Matrix(), rule = new Matrix(), state = {anchor: 0, positive: 1.1, negative: -0.8};
      const a = new View(pictures, circle, {name: "orthogonal-step"});
      const views = [new View(pictures, rule, {name: "M-rule"}), new View(pictures, loss, {name: "M-loss"})];
      triangle(a, state, () => update());
      const batch = {sample: {classes: 5, images: 4, dim: 16, noise: 1, seed: 1}};
      const direction = choice({label: "direction", name: "direction", value: "cos", options: ["euc", "cos", "euc-orth", "cos-orth"].map((d) => [d, d]), on: () => update()});
      beside.prepend(el("div.controls", {}, direction.root));
      pictures.append(beside);
      const update = this.guard(figure, async () => {
        const name = `${direction.value}/lin-ms/cir`;
        const [r, m] = await Promise.all([this.engine.latest("step8", "compute", {rule: name, ...triplet(state)}), this.engine.latest("step8m", "compute", {rule: name, ...batch})]);
        if (!r || !m) return;
        circle.title = `One triplet under ${name}`;
        circle.length = 1.2;
        showTriplet(circle, state, r, 0);
        Object.assign(rule, {values: m.M, rows: m.rows, n: m.n, labels: m.labels, range: largest(m.M), title: `M of ${name}`});
        drawAll(a, ...views);
        const [gx, gy] = [r.G[4], r.G[5]], [ux, uy] = [r.f[0] - r.f[2], r.f[1] - r.f[3]];
        const cosine = Math.abs(gx * ux + gy * uy) / (Math.hypot(gx, gy) * Math.hypot(ux, uy) || 1), angle = Math.acos(Math.min(cosine, 1)) * 180 / Math.PI;
        readout(`Asymmetry of M: ${number(100 * m.skew, 1)} % for the rule, 0 % for the loss.`);
        const still = Math.hypot(gx, gy) < 1e-6;
        tell(!still && angle > 89.9, still ? "The negative does not move: bring it nearer." : `The angle is ${number(angle, 1)}°${angle > 89.9 ? ". Now see M: it is not symmetric." : "."}`);
      });
      once(section, this.guard(figure, async () => {
        const m = await this.engine.call("compute", {loss: "triplet-soft", ...batch});
        Object.assign(loss, {values: m.M, rows: m.rows, n: m.n, labels: m.labels, range: largest(m.M), title: "M of the loss triplet-soft"});
        await update();
      }));
    },
  },
};

// once calls f the first time that a section is near the screen.
function once(section, f) {
  const observer = new IntersectionObserver((entries) => {
    if (!entries.some((e) => e.isIntersecting)) return;
    observer.disconnect();
    f();
  }, {rootMargin: "600px"});
  observer.observe(section);
}

const degrees = (angle) => Math.round(Math.atan2(Math.sin(angle), Math.cos(angle)) * 180 / Math.PI);

const largest = (values) => { let m = 0; for (const v of values) m = Math.max(m, Math.abs(v)); return m || 1; };

// triplet is a batch of one triplet on the circle.
function triplet({anchor, positive, negative}) {
  return {embeddings: Float32Array.from([anchor, positive, negative].flatMap((v) => [Math.sin(v), Math.cos(v)])), labels: Int32Array.from([0, 0, 1]), n: 3, dim: 2,
    triplets: Int32Array.from([0, 1, 2])};
}

// manyPositives is an anchor at the top with a negative at the left, and a triplet for a positive at each angle, from row 2 on.
function manyPositives(angles) {
  const all = [0, -Math.PI / 2, ...angles];
  return {embeddings: Float32Array.from(all.flatMap((v) => [Math.sin(v), Math.cos(v)])), labels: Int32Array.from(all, (_, i) => i === 1 ? 1 : 0), n: all.length, dim: 2,
    triplets: Int32Array.from(angles.flatMap((_, i) => [0, i + 2, 1]))};
}

const similarities = (s) => ({sap: Math.cos(s.positive - s.anchor), san: Math.cos(s.negative - s.anchor)});

// placeBy moves positive and negative so that they have given similarities, on the sides of the anchor where they are.
function placeBy(state, sap, san) {
  const side = (angle, otherwise) => angle === undefined ? otherwise : Math.sign(Math.sin(angle - state.anchor)) || otherwise;
  const angle = (s) => Math.acos(Math.min(Math.max(s, -1), 1));
  const p = side(state.positive, 1), n = side(state.negative, -1);
  state.positive = state.anchor + p * angle(sap);
  state.negative = state.anchor + n * angle(san);
  return state;
}

// triangle puts handles on anchor, positive and negative of a circle.
function triangle(view, state, changed) {
  for (const role of ["anchor", "positive", "negative"]) {
    circleHandle(view, role[0].toUpperCase() + role.slice(1), state, role, changed);
  }
}

// circleHandle puts a handle on the point of a circle whose angle is angles[key]. The anchor's is angles.anchor, or 0.
function circleHandle(view, label, angles, key, changed) {
  const move = (angle) => { angles[key] = angle; changed(); };
  view.handle({label, at: (w, h) => view.picture.place(angles[key], w, h), drag: (x, y, w, h) => move(view.picture.angleAt(x, y, w, h)),
    key: (dx, dy) => move(angles[key] + (dx + dy) * Math.PI / 90),
    value: () => ({now: degrees(angles[key]), min: -180, max: 180, text: `${degrees(angles[key])} degrees` +
      (key === "anchor" ? "" : `, similarity to the anchor ${number(Math.cos(angles[key] - (angles.anchor ?? 0)), 2)}`)})});
}

// diagramHandle puts a handle on a triplet in a diagram. Arrow keys move it in both directions.
function diagramHandle(view, get, set, label) {
  const d = view.picture, into = (v) => Math.round(Math.min(Math.max(v, d.low), d.high) * 1000) / 1000;
  view.handle({label, at: (w, h) => { const f = d.frame(w, h), {sap, san} = get(); return [f.px(Math.max(sap, d.low)), f.py(Math.max(san, d.low))]; },
    drag: (x, y, w, h) => { const f = d.frame(w, h); set(into(f.sx(x)), into(f.sy(y))); },
    key: (dx, dy) => { const {sap, san} = get(); set(into(sap + dx * 0.02), into(san + dy * 0.02)); },
    value: () => { const {sap, san} = get(); return {now: sap, min: d.low, max: d.high, text: `S_ap ${number(sap, 2)}, S_an ${number(san, 2)}`}; }});
}

// showTriplet puts a computed triplet and its steps on a circle; it returns the angles after a step at a rate.
function showTriplet(circle, state, r, rate) {
  const after = {};
  circle.points = ["anchor", "positive", "negative"].map((role, i) => {
    const step = {x: -r.G[2 * i], y: -r.G[2 * i + 1]}, angle = state[role];
    after[role] = Math.atan2(Math.sin(angle) + rate * step.x, Math.cos(angle) + rate * step.y);
    return {angle, role, name: role[0], arrows: [step]};
  });
  circle.ghosts = rate ? Object.values(after) : [];
  return after;
}

function turnSwarm(swarm, view, dx, dy) {
  if (swarm.dim !== 3) return false;
  swarm.turnY += dx;
  swarm.turnX = Math.min(Math.max(swarm.turnX - dy, -1.5), 1.5);
  view.draw();
  return true;
}

function turnKeys(e, swarm, view) {
  const by = {ArrowLeft: [-0.15, 0], ArrowRight: [0.15, 0], ArrowUp: [0, -0.15], ArrowDown: [0, 0.15]}[e.key];
  return by ? turnSwarm(swarm, view, ...by) : false;
}
