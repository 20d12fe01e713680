(id, kernel) => {
  const root = document.getElementById(id);
  if (!root || root.dataset.started) return;
  root.dataset.started = "yes";
  const $ = (selector) => root.querySelector(selector);
  const inputs = [...root.querySelectorAll("select, input")];
  const times = []; // Milliseconds from a change to the picture, of the last redraws.
  let comm = null, seq = 0, waiting = 0, changed = 0, press = [], unanswered = 0, answered = false;

  const fail = (text) => {
    root.dataset.state = "failed";
    $("fieldset").disabled = true;
    $(".problem").textContent = text;
    waiting = 0;
  };
  const lost = "This panel's program has ended. Run the cell again (Shift-Enter) to wake the controls.";

  // Only one event is sent at a time; further changes go with the next one.
  const send = () => {
    if (waiting || !comm) return;
    const values = {};
    for (const input of inputs) {
      values[input.name] = input.type !== "checkbox" ? input.value : input.checked ? "yes" : "";
    }
    waiting = changed || performance.now();
    changed = 0;
    root.dataset.busy = "yes";
    comm.send("/dmlx/in/" + id, JSON.stringify({seq: ++seq, values, press, hidden: document.hidden}));
    press = [];
  };
  const change = (name) => {
    changed = changed || performance.now();
    if (name) press.push(name);
    send();
  };

  // The program ends when it hears nothing for a while, so that it does not outlive its page.
  const beat = () => {
    if (!root.isConnected) return; // The cell was run again, or is deleted.
    if (globalThis.gonb_comm !== comm || unanswered >= 5) fail(lost);
    if (globalThis.gonb_comm !== comm) return;
    unanswered++;
    comm.send("/dmlx/in/" + id, JSON.stringify({beat: true, hidden: document.hidden}));
  };

  const show = async (text) => {
    unanswered = 0;
    if (!root.isConnected) return;
    const view = JSON.parse(text);
    if (!view.seq) { // The answer to a beat.
      if (!answered) waiting = 0; // The program did not listen yet when the first event was sent.
      if (!answered || root.dataset.state === "failed") {
        $("fieldset").disabled = !answered;
        change();
      }
      return;
    }
    answered = true;
    const began = waiting;
    const pictures = await Promise.all(Object.entries(view.pictures || {}).map(async ([name, svg]) => {
      const old = $(`img[data-picture="${name}"]`);
      if (!old) return [];
      const next = new Image();
      for (const a of old.attributes) if (a.name !== "src") next.setAttribute(a.name, a.value);
      next.alt = view.alts[name];
      next.src = URL.createObjectURL(new Blob([svg], {type: "image/svg+xml"}));
      await next.decode();
      return [old, next];
    }));
    for (const [old, next] of pictures) {
      if (!old) continue;
      old.replaceWith(next); // Decoded, so it does not flicker.
      if (old.src.startsWith("blob:")) URL.revokeObjectURL(old.src);
    }
    $(".problem").textContent = view.problem;
    $(".note").textContent = view.note;
    if (view.below !== $(".below").dataset.html) $(".below").innerHTML = $(".below").dataset.html = view.below;
    for (const input of inputs) input.disabled = (view.off || []).includes(input.name);
    $("fieldset").disabled = false;
    requestAnimationFrame(() => {
      const took = performance.now() - began;
      times.push(took);
      if (times.length > 500) times.shift();
      root.dataset.times = times.map((t) => t.toFixed(0)).join(" ");
      root.dataset.seq = view.seq;
      root.dataset.state = "ready";
      $(".time").textContent = `drawn in ${took.toFixed(0)} ms (program: ${view.drawing.toFixed(0)} ms)`;
      waiting = 0;
      for (const button of root.querySelectorAll("button[data-on]")) {
        if (view.problem) button.click(); // Stops a toggle button after a problem.
        else press.push(button.name);
      }
      if (changed || press.length) send();
      else delete root.dataset.busy;
      if (view.more) setTimeout(change, 250);
    });
  };

  for (const input of inputs) {
    input.addEventListener("input", () => {
      if (input.nextElementSibling) input.nextElementSibling.value = input.value;
      change();
    });
  }
  for (const button of root.querySelectorAll("button")) {
    const label = button.textContent;
    button.addEventListener("click", () => {
      if (button.dataset.toggle) {
        button.toggleAttribute("data-on");
        button.textContent = button.hasAttribute("data-on") ? button.dataset.toggle : label;
        if (!button.hasAttribute("data-on")) return;
      }
      change(button.name);
    });
  }
  // Arrow keys move sliders, not the notebook's cursor. JupyterLab ignores keys in the panel, so its shortcuts, such as
  // Ctrl+S, are passed on to it.
  root.addEventListener("keydown", (e) => {
    e.stopPropagation();
    if (!e.ctrlKey && !e.metaKey) return;
    const again = new KeyboardEvent("keydown", {key: e.key, code: e.code, keyCode: e.keyCode, ctrlKey: e.ctrlKey, metaKey: e.metaKey,
      shiftKey: e.shiftKey, altKey: e.altKey, bubbles: true, cancelable: true});
    if (!root.parentElement.dispatchEvent(again)) e.preventDefault();
  });
  root.addEventListener("dmlx-end", () => change("end")); // The cell is run again: see the extension of "dmlx lab".
  $("form").addEventListener("submit", (e) => e.preventDefault());

  // A program that has just been started may still have to set up the connection.
  const began = performance.now();
  const connect = () => {
    const candidate = globalThis.gonb_comm;
    if (candidate && (!kernel || candidate._kernel_id === kernel)) {
      comm = candidate;
      comm.subscribe("/dmlx/out/" + id, (_, text) =>
        show(text).catch((error) => fail(`Cannot show the pictures: ${error}`)));
      change();
      setInterval(beat, 1000);
    } else if (performance.now() - began < 20000) {
      setTimeout(connect, 50);
    } else {
      fail(lost);
    }
  };
  connect();
}
