"use strict";
// The fields in which a rule's weights and mask are typed as formulas. The pictures follow each key. A fault is said under the character where it is.

const FORMULA_FIELDS = [["positive", "P_{+}"], ["negative", "P_{−}"], ["triplet", "T"], ["mask", "P_{+} = 0 where"], ["numbers", "own numbers"]];

class Formulas {
  constructor(side, examples) {
    this.side = side;
    this.past = []; // Names of rules.
    this.inputs = {};
    this.faults = {};
    const rows = FORMULA_FIELDS.map(([name, label]) => {
      const id = `c${++ids}`, about = `${id}f`;
      this.inputs[name] = el("input", {type: "text", id, name, spellcheck: "false", autocomplete: "off", autocapitalize: "off", "aria-describedby": about, oninput: (e) => { timing.begin(e); this.typed(); }});
      this.faults[name] = el("div.fault", {id: about});
      return el("div.formula", {}, el("label", {for: id}, symbol(label)), el("div", {}, this.inputs[name], this.faults[name]));
    });
    this.start = choice({label: "start from", name: "example", value: "", options: [["", "an example …"], ...examples.map((x) => [x.rule, x.title])],
      on: (rule) => { document.activeElement?.blur(); this.start.set(""); if (rule) side.read(rule); }});
    this.undoButton = button("Undo", () => this.undo(), {disabled: true});
    this.remarks = el("div.remarks");
    this.root = el("details.formulas", {}, el("summary", {}, "Weights as formulas"), el("div.buttons", {}, this.start.root, this.undoButton), el("div.rows", {}, ...rows), this.remarks,
      el("details.about", {}, el("summary", {}, "What a formula may have"), "Of the similarities Sap and San, the distances Dap and Dan, the numbers tau, alpha, beta, lambda and epsilon, and own numbers as k=4. Functions: exp, log, sqrt, abs, " +
        "min, max, pow, sigmoid, softplus, tanh, relu, where(condition, x, y), and mean(x, y), the mean of x over the other nearby positives (Rap) or negatives (Ran), and y where there are none."));
  }

  async typed() {
    const {side} = this, fields = Object.fromEntries(FORMULA_FIELDS.map(([name]) => [name, this.inputs[name].value]));
    const got = await side.bench.engine.latest(`formula${side.letter}`, "formula", {fields}).catch((error) => ({faults: [{field: "triplet", at: 0, what: error.message}]}));
    if (!got) return; // A newer key has been pressed.
    this.mark(got.faults);
    if (got.faults.length) return void (timing.from = 0);
    side.take({pair: got.pair, triplet: got.triplet, mask: got.mask});
    side.changed(true);
    this.settle();
  }

  settle = later(300, () => this.side.changed());

  // mark says faults, each behind a mark under its character.
  mark(faults) {
    for (const [name] of FORMULA_FIELDS) {
      const fault = faults.find((f) => f.field === name);
      this.inputs[name].setAttribute("aria-invalid", String(Boolean(fault)));
      this.faults[name].replaceChildren(...(fault ? [el("span.at", {"aria-hidden": "true"}, " ".repeat(fault.at) + "▲"), el("span", {}, `${fault.what.replace(/[^?]$/, "$&.")} The pictures show the formulas before.`)] : []));
      if (fault && this.inputs[name] === document.activeElement) this.faults[name].scrollIntoView({block: "nearest"});
    }
  }

  // show fills the fields from a rule, unless one of them is being typed in, and keeps its name for Undo.
  show(parsed) {
    if (parsed.kind !== "rule" || !parsed.formulas) return;
    if (parsed.name !== this.past[this.past.length - 1]) this.past.push(parsed.name);
    this.undoButton.disabled = this.past.length < 2;
    if (!FORMULA_FIELDS.some(([name]) => this.inputs[name] === document.activeElement)) {
      for (const [name] of FORMULA_FIELDS) this.inputs[name].value = parsed.formulas[name] || "";
      this.mark([]);
    }
    this.remarks.replaceChildren(...[parsed.loss, ...parsed.remarks].map((line) => el("p.about", {}, symbol(subscripts(line)))));
  }

  undo() {
    this.past.pop();
    document.activeElement?.blur();
    this.side.read(this.past[this.past.length - 1]);
  }
}
