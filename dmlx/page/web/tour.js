"use strict";
// One-minute stories. Each scene is an address of the workbench, a text, and the picture that comes first. Numbers in braces are read off the workbench: {a.sap} is side A's mean S_ap.

const MAP = "batch=8x4x3,0.7,1", EIGHT = "batch=8x4x8,1,1", WIDE = "batch=8x4x32,1,1&triplet=0,26,-60&low=-1";
const STORIES = {
  euclid: {title: "Why Euclid crowds", scenes: [
    [`a=cos/con/con&b=euc/con/con&${WIDE}`, "Two rules have the same constant weights and different directions. The lone triplet has a near positive. Of the cosine step on it a part of {a.turn} turns it, in green; of the Euclidean step {b.turn}.", "circle"],
    [`a=cos/con/con&b=euc/con/con&${WIDE}&steps=50`, "After 50 steps from one start the mean S_{ap} is {a.sap} by cos and {b.sap} by euc. The Euclidean pull does not fade, so its classes are tighter: triplets stand nearer to the right edge. Nothing crowds yet, since the mean S_{an} is {a.san} and {b.san}.", "diagram"],
    [`a=cos/con/con&b=euc/euc/con&${WIDE}&steps=50`, "The pair weight euc is the distance of a pair. It fades as the pair closes and takes back what the direction adds: {a.sap} and {b.sap}.", "diagram"],
    [`a=euc/con/con&b=euc/lin/con&${WIDE}&steps=50`, "The pair weight lin, 1 − S_{ap}, fades as well: the mean S_{ap} by the Euclidean direction is {b.sap} in place of {a.sap}.", "diagram"],
    [`a=euc/con/con&${WIDE}`, "Each of these points moves by itself. The embeddings of a network share its weights, and there a pull that does not fade crowds them: more test images have both similarities high, as in the paper’s Figure 5. The race below shows it. Now choose a pair weight here, and press Play.", "swarm"]]},
  relative: {title: "What MS’s relative weights do", scenes: [
    [`a=cos/lin/con&b=cos/lin-ms/con&${EIGHT}&show=push`, "lin weighs a pair by its own similarity. lin-ms also counts the mean lead of the negative over the anchor’s other near negatives: the mean P_{−} rises from {a.push} to {b.push}, the largest entry of M from {a.M} to {b.M}.", "matrix"],
    [`a=cos/lin/con&b=cos/lin-ms/con&${EIGHT}`, "The positive is the anchor’s nearest one, so its lead weakens the pull: the mean P_{+} falls from {a.pull} to {b.pull}.", "matrix"],
    [`a=cos/lin/con&b=cos/lin-ms/con&${WIDE}&show=push`, "Here classes are well apart, and few others are near enough to count. The mean P_{−} goes from {a.push} to {b.push} only. On In-Shop, which is such a set, the paper finds lin-ms almost the same as lin.", "matrix"],
    [`a=cos/sig/con&b=cos/sig-ms/con&${EIGHT}&show=push`, "MS’s own weight has the lead in an exponential, with β = 10. The mean P_{−} goes from {a.push} to {b.push}, the largest entry of M from {a.M} to {b.M}. The paper’s appendix finds this unstable at large learning rates.", "matrix"],
    [`a=cos/sig-ms/con&b=cos/lin-ms/con&${EIGHT}&show=push`, "lin-ms keeps the idea and stays calm: its mean P_{−} is {b.push} against {a.push}. Now change β of A, or the noise under Batch.", "matrix"]]},
  mask: {title: "A mask is no weight", scenes: [
    [`a=cos/con/con&${MAP}`, "Without a mask all triplets pull alike: T·P_{+} is {a.force} everywhere. {a.hard} of the {a.n} triplets are hard: their negative is nearer than their positive.", "diagram"],
    [`a=cos/con/con+sc1&${MAP}`, "The mask sc1 takes the pull from what is above the diagonal: {a.silent} of {a.n} triplets no longer pull.", "diagram"],
    [`a=cos/con/con+sc1&${MAP}&show=push`, "The push of the same rule is as before, above the diagonal and below. Hard triplets only push.", "diagram"],
    [`a=cos/con/con+sc1&b=cos/con/cos?tau=4&${MAP}`, "A triplet weight is another thing: B’s T^{cos} makes hard triplets count more. It scales the pull and the push alike: choose the push as diagram, and B keeps its values.", "diagram"],
    [`a=cos/con/con+sc1&b=cos/con/con+sc2&${MAP}`, "sc2 is stricter. It leaves the pull inside a circle about the bottom right corner: {b.silent} of {b.n} triplets only push, and {a.silent} by sc1.", "diagram"],
    [`a=cos/con/con&b=cos/con/con+sc1&${MAP}&steps=50`, "After 50 steps classes are less tight with the mask: the mean S_{ap} is {b.sap} against {a.sap}. Recall@1 of these few points is {a.recall} and {b.recall} %, which decides nothing. Now try sc2, or go on.", "swarm"]]},
};

const Tour = {
  // address is where a story, as "euclid" or "euclid.2", is in the workbench.
  address(story) {
    const [name, scene = "1"] = (story || "").split("."), at = Object.hasOwn(STORIES, name) && STORIES[name].scenes[scene - 1];
    return at ? `#${at[0]}&story=${name}.${scene}` : "";
  },

  build() {
    const turn = async (by) => { // Clicks count, too, while a scene before is still read.
      const to = this.to = Math.min(Math.max((this.to || this.scene) + by, 1), STORIES[this.name].scenes.length);
      await Bench.restore(this.address(`${this.name}.${to}`));
      if (this.to === to) this.to = 0;
    };
    this.title = el("h3");
    this.text = el("p", {role: "status"});
    this.back = button("Back", () => turn(-1));
    this.next = button("Next", () => turn(1), {class: "action main"});
    this.root = el("div.tour", {role: "group", "aria-label": "Story", onkeydown: (e) => { ({ArrowLeft: this.back, ArrowRight: this.next})[e.key]?.click(); }},
      this.title, this.text, el("div.buttons", {}, this.back, this.next, button("End", () => { this.show(""); Bench.remember(); })));
    document.getElementById("bench").append(this.root);
  },

  // show tells a scene of the workbench, which is there already; of no story it is hidden.
  async show(story) {
    if (!this.root) this.build();
    const began = this.root.hidden || !this.story, [name, scene] = story.split("."), known = this.address(story);
    Object.assign(this, {story: known && story, name, scene: Number(scene)});
    this.root.hidden = !story;
    for (const {cards} of [Bench.a, Bench.b]) cards.forEach((card, i) => { card.style.order = known && KINDS[i] === STORIES[name].scenes[scene - 1][2] ? -1 : ""; });
    for (const b of [this.back, this.next]) b.hidden = !known;
    this.title.textContent = known ? `${STORIES[name].title} · ${scene} of ${STORIES[name].scenes.length}` : "Stories";
    if (!known) return this.text.replaceChildren(story && `There is no story “${story}”; want one of ${Object.keys(STORIES).join(", ")}.`);
    const {scenes} = STORIES[name], [at, text, kind] = scenes[scene - 1], steps = Number(fields(at).get("steps") || 0);
    this.back.disabled = this.scene === 1;
    this.next.disabled = this.scene === scenes.length;
    this.text.replaceChildren(steps ? `${plural(steps, "step")} of the points …` : "…"); // A sentence comes with its numbers.
    if (began) this.root.parentElement.scrollIntoView();
    Bench.look(kind);
    if (!await Bench.arrived(steps) || this.story !== story) return;
    const numbers = {a: this.numbers(Bench.a), b: Bench.state.compare && this.numbers(Bench.b)};
    this.text.replaceChildren(symbol(text.replace(/\{([ab])\.(\w+)\}/g, (_, side, name) => numbers[side][name])));
  },

  // numbers are those of a side that a scene may tell.
  numbers({result: r, numbers: {lone}}) {
    const t = r.triplets, at = Array.from({length: t.count}, (_, k) => k), mean = (of) => meanOf(at.map((k) => of[k])), [x, y] = [lone.G[2], lone.G[3]];
    return {n: t.count, san: number(mean(t.san), 2), hard: at.filter((k) => t.san[k] > t.sap[k]).length, silent: at.filter((k) => t.pairPositive[k] === 0).length, sap: number(mean(t.sap), 3), pull: number(mean(t.pairPositive), 2),
      push: number(mean(t.pairNegative), 2), force: number(t.weight[0] * t.pairPositive[0]), M: number(largest(r.M), 2), recall: number(100 * recallAt1(r.S, r.rows, r.n, r.labels), 0),
      turn: number(Math.abs(x * lone.f[3] - y * lone.f[2]) / Math.hypot(x, y), 2)};
  },
};
