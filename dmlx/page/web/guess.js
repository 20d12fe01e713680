"use strict";
// A guess comes before the answer: an order of names, or a curve. What is so stays hidden until the reader has committed to one, or skips it. Nothing is kept.

class Guess {
  // items are names to order, the most first, or else x are the places of a curve; answers are [{name, y}], with a number for each; a curve may have its own x, color and dash. done is called once with whether
  // the answers are asked for or the guess was skipped.
  constructor({question, items, x, xTitle = "S", yRange = [0, 1.5], answers}, done) {
    Object.assign(this, {question, items, x, answers});
    this.result = el("div", {role: "status"});
    this.buttons = el("div.buttons", {}, button("Show what is so", () => end(true)), button("Skip", () => end(false)));
    this.root = el("div.guess", {}, el("p", {}, symbol(question)));
    if (items) this.order();
    else this.curve(xTitle, yRange);
    this.root.append(this.buttons, this.result);
    const end = (committed) => {
      this.buttons.remove();
      if (committed) this.reveal();
      else this.root.replaceChildren();
      done(committed);
    };
  }

  order() {
    this.list = el("ol");
    let held = null;
    const place = (row) => announce(`${row.dataset.name} is number ${[...this.list.children].indexOf(row) + 1}`);
    this.items.forEach((name, i) => {
      const buttons = el("span.buttons"), row = el("li", {"data-name": name, "data-item": String(i)}, el("span", {}, symbol(name)), buttons);
      for (const [text, what] of [["↑", "earlier"], ["↓", "later"]]) {
        buttons.append(el("button.action", {type: "button", "aria-label": `${plain(name)} ${what}`, onclick: (e) => {
          const other = text === "↑" ? row.previousElementSibling : row.nextElementSibling;
          if (other) other[text === "↑" ? "before" : "after"](row);
          e.currentTarget.focus();
          place(row);
        }}, text));
      }
      row.addEventListener("pointerdown", (e) => {
        if (e.target.tagName === "BUTTON") return;
        e.preventDefault();
        held = row;
        row.classList.add("held");
        this.list.setPointerCapture(e.pointerId); // A row that is moved loses the pointer.
      });
      this.list.append(row);
    });
    this.list.addEventListener("pointermove", (e) => {
      if (!held) return;
      const middle = (r) => { const b = r.getBoundingClientRect(); return b.top + b.height / 2; }, {previousElementSibling: up, nextElementSibling: down} = held;
      if (up && e.clientY < middle(up)) up.before(held);
      else if (down && e.clientY > middle(down)) down.after(held);
    });
    for (const end of ["pointerup", "pointercancel"]) this.list.addEventListener(end, () => { if (held) { held.classList.remove("held"); place(held); } held = null; });
    this.root.append(this.list);
  }

  curve(xTitle, yRange) {
    const picture = this.picture = new Curves(), {x} = this, [low, high] = yRange;
    this.y = x.map(() => (low + high) / 2);
    Object.assign(picture, {xTitle, yRange, title: "Draw", xRange: [x[0], x[x.length - 1]]});
    const view = this.view = new View(this.root, picture, {name: "guess", ratio: 0.55, most: 320, save: false});
    const show = () => { picture.series = [{x, y: this.y, color: "accent", name: "yours", width: 3}]; view.draw(); };
    const into = (v) => Math.min(Math.max(v, low), high);
    // One stroke draws all of it, from a handle or from anywhere.
    const stroke = (px, py, w, h) => {
      const f = picture.frame(w, h);
      this.y[nearest(x, f.sx(px))] = into(high - (high - low) * (py - f.y) / f.height);
      show();
    };
    const drawn = (e) => {
      const box = view.canvas.getBoundingClientRect();
      if (e.pointerType === "mouse" && e.buttons && view.handles.length) stroke((e.clientX - box.left) / view.scale, (e.clientY - box.top) / view.scale, view.width, view.height);
    };
    for (const type of ["pointerdown", "pointermove"]) view.canvas.addEventListener(type, drawn); // A finger scrolls the page.
    x.forEach((at, i) => view.handle({label: `at ${xTitle} ${number(at, 2)}`,
      at: (w, h) => { const f = picture.frame(w, h); return [f.px(at), f.py(this.y[i])]; },
      drag: stroke,
      key: (dx, dy) => { this.y[i] = into(this.y[i] + dy * (high - low) / 30); show(); },
      value: () => ({now: this.y[i], min: low, max: high, text: number(this.y[i], 2)})}));
    show();
  }

  reveal() {
    const {answers} = this;
    if (!this.items) {
      const look = [["negative", []], ["positive", [7, 4]], ["turn", [2, 4]], ["ink", [9, 3, 2, 3]]];
      this.picture.title = "Yours, and what is so";
      this.picture.series.push(...answers.map(({name, x = this.x, y, color, dash}, i) => ({x, y, name, color: color || look[i % 4][0], dash: dash || look[i % 4][1]})));
      for (const handle of this.view.root.querySelectorAll(".handle")) handle.remove();
      this.view.handles = [];
      return this.view.draw();
    }
    const mine = [...this.list.children].map((row) => Number(row.dataset.item));
    const columns = answers.map(({y}) => mine.toSorted((a, b) => y[b] - y[a]));
    const agrees = ({name, y}) => {
      let same = 0, all = 0;
      mine.forEach((a, i) => mine.slice(i + 1).forEach((b) => { all++; same += y[a] > y[b]; }));
      return `${same} of ${all} as ${name}`;
    };
    this.list.replaceWith(el("table", {}, el("thead", {}, el("tr", {}, ...["yours", ...answers.map((a) => a.name)].map((t) => el("th", {scope: "col"}, symbol(t))))),
      el("tbody", {}, ...mine.map((item, i) => el("tr", {}, el("td", {}, symbol(this.items[item])),
        ...answers.map(({y}, k) => el("td", {}, symbol(this.items[columns[k][i]]), ` ${number(y[columns[k][i]], 1)}`)))))));
    this.result.textContent = `Of your pairs ${answers.map(agrees).join(", ")}.`;
  }
}

// The document around a frame hides what the guess is about until it hears of its end.
function guessInFrame(section, state) {
  const given = /[#&]guess=([^&]+)/.exec(state)?.[1];
  try {
    const guess = new Guess(JSON.parse(decodeURIComponent(given)), (committed) => parent.postMessage({dmlx: committed ? "shown" : "skipped"}, "*"));
    section.append(guess.root);
    guess.view?.resize();
  } catch (error) {
    section.append(el("p.problem", {}, `This guess cannot be read: ${error.message}`));
  }
}
