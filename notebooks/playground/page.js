(id, kernel) => {
  const root = document.getElementById(id);
  if (!root || root.dataset.started) return;
  root.dataset.started = "yes";
  const $ = (selector) => root.querySelector(selector);
  const inputs = [...root.querySelectorAll("select, input")];
  const times = []; // Milliseconds from a change to the picture, of the last redraws.
  let comm = null, seq = 0, waiting = 0, changed = 0, press = [], timer = 0;

  const fail = (text) => {
    root.dataset.state = "failed";
    $(".problem").textContent = text;
  };

  // Only one event is sent at a time; further changes go with the next one.
  const send = () => {
    if (waiting || !comm) return;
    if (globalThis.gonb_comm !== comm) {
      fail("This panel lost its program: another notebook's panel took over, or the kernel was restarted. " +
        "Press Stop and run the cell again.");
      return;
    }
    const values = {};
    for (const input of inputs) values[input.name] = input.value;
    waiting = changed || performance.now();
    changed = 0;
    root.dataset.busy = "yes";
    comm.send("/dmlx/in/" + id, JSON.stringify({seq: ++seq, values, press}));
    press = [];
    clearTimeout(timer);
    timer = setTimeout(() => {
      waiting = 0;
      fail("The cell's program does not answer. If it has ended, run the cell again.");
    }, 5000);
  };
  const change = (name) => {
    changed = changed || performance.now();
    if (name) press.push(name);
    send();
  };

  const show = async (text) => {
    clearTimeout(timer);
    if (!root.isConnected) return;
    const view = JSON.parse(text);
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
    for (const input of inputs) input.disabled = (view.off || []).includes(input.name);
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
  root.addEventListener("keydown", (e) => e.stopPropagation()); // Arrow keys move sliders, not the notebook's cursor.
  $("form").addEventListener("submit", (e) => e.preventDefault());

  const began = performance.now();
  const connect = () => {
    const candidate = globalThis.gonb_comm;
    if (candidate && (!kernel || candidate._kernel_id === kernel)) {
      comm = candidate;
      comm.subscribe("/dmlx/out/" + id, (_, text) =>
        show(text).catch((error) => fail(`Cannot show the pictures: ${error}`)));
      change();
    } else if (performance.now() - began < 20000) {
      setTimeout(connect, 50);
    } else {
      fail("The program of this panel has ended. Run the cell again.");
    }
  };
  connect();
}
