/* How a cell of "dmlx lab" shows that it runs, stops or fails. JupyterLab's own executor clears a cell's outputs when
 * it is queued, sends all cells of Run All at once, and GoNB runs queued cells even after one has failed. Here
 *
 * - cells are sent one by one, and Stop, a failure or a restart drops those that wait;
 * - a cell keeps its old outputs until it has something new to show, and progress lines appear beside them. If it fails
 *   or is stopped before that, they come after those words, dimmed, as those of the earlier run;
 * - a cell says so if it uses a function whose cell no longer compiles, since GoNB then still has the earlier one;
 * - a form in a cell, which is live as long as its program runs, leaves its pictures when other cells wait, and a click
 *   on its last line runs it again;
 * - a cell that shows nothing for a second says what it waits for, and so do completion and hover;
 * - errors of the compiler and panics are cut to their message and the line of the cell;
 * - JupyterLab's shortcuts work in the frame of a live page;
 * - pictures have the alternative text that package nb gives them;
 * - the contents page, which has no code, starts no kernel.
 *
 * JupyterLab loads the file as a federated extension, whose interface (init and get) bundlers usually generate. It is
 * written by hand so that no Node is needed. */
(() => {
  "use strict";

  // The mark of progress and stop lines in their metadata: see stop.go of package nb.
  const kindOf = (output) => (output.metadata || {}).dmlx;
  const isResult = (output) => !kindOf(output) && output.output_type !== "error" && output.name !== "stderr";
  const stopLine = (text) => ({data: {"text/plain": text}, metadata: {dmlx: "stopped"}});
  // What stands between an error and the outputs of the run before, which styles dim.
  const earlierLine = {output_type: "display_data", metadata: {dmlx: "earlier"},
    data: {"text/html": '<div class="dmlx-earlier">From the earlier run:</div>', "text/plain": "From the earlier run:"}};

  /* Errors. */

  // A line of a cell as GoNB names it in errors. Cell is absent for the source that GoNB has added.
  const place = /Cell(?: ?\[(\d+)\]:?)? Line (\d+)/;
  const plain = (text) => text.replace(/\x1b\[[0-9;]*m/g, "");
  const where = (number, line, count) => (number === undefined || Number(number) === count ? "" : `cell [${number}], `) + `line ${line}`;

  // The compiler's errors, at most five, each with the line and a caret. traceback is GoNB's: for each error the place,
  // a few lines around it with a caret below the line, and the message. count is the cell's execution count.
  const compileErrors = (traceback, count) => {
    const found = traceback.map(plain).filter((t) => place.test(t)).slice(0, 5);
    return found.map((text) => {
      const lines = text.split("\n"), caret = lines.findIndex((l) => /^\s*\^$/.test(l));
      const [, number, line] = place.exec(lines[0]);
      const message = `${where(number, line, count)}: ${lines[lines.length - 1]}`;
      if (caret < 1) return message;
      // Go indents by tabs, which the caret's line counts as one column.
      const source = lines[caret - 1], indent = source.length - source.trimStart().length;
      return `${message}\n    ${source.slice(indent)}\n    ${lines[caret].slice(indent)}`;
    });
  };

  // The number of the cell's line that ends a part of the program, and 0 if there is none. Of several lines with its
  // text it is the one with the most equal lines above.
  const lineOf = (source, program) => {
    const trimmed = (text) => text.trimEnd().split("\n").map((line) => line.trim());
    const cell = trimmed(source), upwards = trimmed(program).reverse();
    let found = 0, most = 0;
    cell.forEach((_, i) => {
      let equal = 0;
      while (equal <= i && cell[i - equal] === upwards[equal]) equal++;
      if (equal > most) [found, most] = [i + 1, equal];
    });
    return found;
  };

  // A panic's message and the cell's line that it came from. GoNB does not name the cell if it reads the program's output
  // in two parts just there. The line is then looked up in the program that GoNB made of all cells.
  const panicError = async (stderr, count, source, kernel) => {
    const message = /^(panic|fatal error): .*$/m.exec(stderr)[0];
    const at = place.exec(plain(stderr));
    if (!at) {
      const [, file, number] = /(\/\S*\/main\.go):(\d+)/.exec(plain(stderr)) || [];
      let text = "";
      if (file) {
        const future = kernel.requestExecute({code: `!sed -n 1,${number}p '${file}'`, silent: true, store_history: false});
        future.onIOPub = ({content}) => { if (content.name === "stdout") text += content.text; };
        await future.done;
      }
      const line = text && lineOf(source, text);
      return (line ? `line ${line}: ` : "") + message + (text && `\n    ${text.trimEnd().split("\n").pop().trim()}`);
    }
    const own = at[1] === undefined || Number(at[1]) === count;
    const line = own && source.split("\n")[Number(at[2]) - 1];
    return `${where(at[1], at[2], count)}: ${message}` + (line ? `\n    ${line.trim()}` : "");
  };

  /* The line that says what one waits for. */

  // What a cell waits for that has shown nothing yet, while the set-up goes on behind it.
  const compiling = () => {
    if (doing.some((step) => step.includes("GoNB"))) return "waiting for GoNB, which is set up once";
    return doing.some((step) => step.includes("packages")) ? "compiling, the first time with all packages" : "compiling and running";
  };

  // attach is called twice a second and puts the line where it belongs. say takes a text, or a function that returns it.
  const showWait = (attach) => {
    const node = document.createElement("div");
    node.className = "dmlx-wait";
    node.style.cssText = "color:var(--jp-ui-font-color2);font-size:var(--jp-ui-font-size1);padding:2px 8px;z-index:1";
    let what = "", hidden = false, began = Date.now();
    const show = () => {
      const seconds = Math.floor((Date.now() - began) / 1000);
      node.hidden = hidden || seconds < 1;
      node.textContent = `${typeof what === "function" ? what() : what}: ${seconds} s`;
      attach(node);
    };
    const timer = setInterval(show, 500);
    return {
      say: (text) => { what = text; show(); },
      restart: () => { began = Date.now(); },
      hide: () => { hidden = true; show(); },
      end: () => { clearInterval(timer); node.remove(); },
    };
  };

  // At the right of a cell's old outputs, which it must not move; in place of those to come.
  const onCell = (cell) => (node) => {
    const area = cell.isDisposed ? null : cell.outputArea.node;
    if (area && node.parentNode !== area) area.prepend(node);
    if (!area || node.hidden) return;
    const beside = cell.model.outputs.length > 0;
    node.style.position = beside ? "absolute" : "static";
    node.style.right = "8px";
    node.style.marginLeft = beside ? "0" : "var(--jp-cell-prompt-width)";
    node.style.background = beside ? "var(--jp-layout-color0)" : "none";
  };

  const onWindow = (node) => {
    Object.assign(node.style, {position: "fixed", right: "24px", bottom: "32px", background: "var(--jp-layout-color2)"});
    document.body.append(node);
  };

  // Completion and hover have no line of their own, and gopls reads all packages first.
  const watchQuestions = (kernel) => {
    for (const name of ["requestComplete", "requestInspect"]) {
      const ask = kernel[name].bind(kernel);
      kernel[name] = async (content) => {
        const wait = showWait(onWindow);
        wait.say("asking gopls, which at first reads all packages");
        try {
          return await ask(content);
        } finally {
          wait.end();
        }
      };
    }
  };

  // The names that a cell declares.
  const declared = (source) => [...source.matchAll(/^(?:func|type|var|const)\s+(\w+)/gm)].map(([, name]) => name);

  // What a cell uses of declarations that did not compile, as a line that says so.
  const staleLine = (source, broken) => {
    const code = source.replace(/"(?:\\.|[^"\\\n])*"|`[^`]*`|\/\/.*/g, ""), names = [...broken].filter((name) => RegExp(`\\b${name}\\b`).test(code));
    return names.length ? `This uses ${names.join(" and ")} as it was before the error in another cell.\n` : "";
  };

  /* Execution. */

  // The cells that one kernel runs: the end of the last one, how many there are, a number that changes when those that
  // wait are dropped, the line of the one that runs, the timer of Stop, the start of the kernel, and the names whose
  // declarations did not compile when they were last run.
  const queues = new WeakMap();
  const queueOf = (sessionContext) => {
    if (!queues.has(sessionContext)) queues.set(sessionContext, {last: Promise.resolve(), length: 0, round: 0, running: null, stopping: null, starting: null, broken: new Set()});
    return queues.get(sessionContext);
  };

  // GoNB ignores an interrupt while it compiles, so Stop repeats it until the cell ends.
  const repeatEvery = 1000;
  const watched = new WeakSet();
  const watchKernel = (kernel, queue) => {
    if (!kernel || watched.has(kernel)) return;
    watched.add(kernel);
    watchQuestions(kernel);
    kernel.statusChanged.connect((_, status) => { if (status.endsWith("restarting")) queue.broken.clear(); });
    const interrupt = kernel.interrupt.bind(kernel);
    kernel.interrupt = () => {
      queue.round++;
      if (queue.running && !queue.stopping) {
        queue.stopping = setInterval(() => { interrupt().catch(() => {}); }, repeatEvery);
        queue.running.say("stopping");
      }
      return interrupt();
    };
  };

  // Runs a cell and keeps its old outputs until it has new ones. It returns or throws what runCell does, and false for
  // a cell that was stopped.
  const runOne = async (runCell, options, queue, wait) => {
    const {cell, sessionContext} = options, outputs = cell.model.outputs, before = cell.outputArea.future;
    const old = outputs.toJSON().filter(isResult), kernel = sessionContext.session && sessionContext.session.kernel;
    watchKernel(kernel, queue);
    const running = runCell(options); // Sends the cell before it returns, and clears the outputs.
    const future = cell.outputArea.future;
    if (!future || future === before) return running; // There was nothing to send.
    outputs.fromJSON(old);
    const source = cell.model.sharedModel.getSource();
    for (const name of declared(source)) queue.broken.delete(name);
    let kept = old.length, stale = staleLine(source, queue.broken);
    const dropOld = () => {
      for (; kept > 0; kept--) outputs.remove(0);
      if (stale) outputs.add({output_type: "stream", name: "stderr", text: stale});
      stale = "";
    };
    const dimOld = () => {
      if (kept === 0) return;
      const all = outputs.toJSON();
      outputs.fromJSON([...all.slice(kept), earlierLine, ...all.slice(0, kept)]);
      kept = 0;
    };
    let count, stderr = "", panicked = false, stopped = false, told = false, failing = null;
    const show = (type, content) => { // In place of a message.
      future.onIOPub({header: {msg_type: type}, content});
      return false;
    };
    const fail = (text) => {
      told = true;
      const lines = text.split("\n"); // The future may have ended.
      outputs.add({output_type: "error", ename: "", evalue: lines[0], traceback: lines});
      return false;
    };
    const onMessage = ({header, content}) => {
      switch (header.msg_type) {
        case "execute_input":
          count = content.execution_count;
          return true;
        case "stream":
          wait.say("running");
          if (content.name !== "stderr") {
            dropOld();
            return true;
          }
          // GoNB's own words about the end, which the error repeats.
          if (/^(\^C\n)?(exit status \d+|signal: .*)\n$/.test(content.text)) return false;
          stderr += content.text;
          if (panicked) return false;
          panicked = /^(panic|fatal error): /m.test(stderr);
          return !panicked;
        case "error": {
          told = true;
          if (queue.stopping) {
            return stopped ? false : show("display_data", stopLine("stopped; run the cell again to start anew"));
          }
          if (content.evalue === "signal: interrupt") return told = false; // Its kernel is ending, which is told below.
          const found = compileErrors(content.traceback, count);
          if (found.length > 0 || !/^(exit status \d+|signal: .*)$/.test(content.evalue)) declared(source).forEach((name) => queue.broken.add(name));
          if (found.length > 0) return fail(found.join("\n"));
          if (panicked) {
            failing = panicError(stderr, count, source, kernel).then(fail);
            return false;
          }
          if (/^exit status \d+$/.test(content.evalue)) {
            return stderr ? false : fail("the cell's program ended with " + content.evalue);
          }
          return true;
        }
        case "display_data":
        case "update_display_data":
        case "execute_result":
          switch (kindOf(content)) {
            case "progress":
              wait.hide();
              break;
            case "stopped":
              stopped = true;
              break;
            default:
              wait.say("running");
              if (header.msg_type !== "update_display_data") dropOld();
          }
          return true;
        case "clear_output":
          dropOld();
          return true;
      }
      return true;
    };
    future.registerMessageHook(onMessage);
    let ok = false;
    try {
      ok = await running;
    } finally { // A failed cell rejects, or is not ok.
      await failing;
      const halted = stopped || queue.stopping;
      ok &&= !halted;
      if (ok) dropOld();
      else if (!cell.isDisposed) {
        if (!told && !halted) fail("the kernel was ended, restarted or interrupted before the cell's end");
        dimOld();
      }
    }
    return ok;
  };

  const promptShown = new WeakSet();
  // A collapsed cell has no prompt of its own, so its placeholder shows that it waits or runs, and then its number.
  const showPrompt = (cell) => {
    const prompt = cell.node.querySelector(".jp-Placeholder .jp-InputPrompt"), {executionState, executionCount} = cell.model;
    if (prompt) prompt.textContent = executionState === "running" ? "[*]:" : executionCount ? `[${executionCount}]:` : "";
  };

  const run = async (runCell, options) => {
    const {cell, sessionContext} = options;
    if (cell.model.type !== "code" || !sessionContext) return runCell(options);
    const queue = queueOf(sessionContext), wait = showWait(onCell(cell));
    // JupyterLab would start a kernel within the run, another one if there is one that starts, and one for each cell of Run All.
    wait.say("waiting for the kernel");
    await sessionContext.ready;
    if (queue.starting || sessionContext.hasNoKernel) {
      await (queue.starting ??= sessionContext.startKernel().finally(() => { queue.starting = null; }));
    }
    if (sessionContext.hasNoKernel) { // It asks which one.
      wait.end();
      return runCell(options);
    }
    if (!promptShown.has(cell)) {
      promptShown.add(cell);
      cell.model.stateChanged.connect(() => showPrompt(cell));
    }
    const round = queue.round, before = queue.last;
    // A cell that is run again ends its own panel, which would otherwise make it wait. A deleted cell has no area.
    const tellPanel = (name) => cell.outputArea?.node.querySelectorAll(".dmlx-panel").forEach((panel) => panel.dispatchEvent(new Event(name)));
    tellPanel("dmlx-end");
    let ended, yielding;
    queue.last = new Promise((resolve) => { ended = resolve; });
    let ok = false;
    try {
      if (queue.length++ > 0) {
        cell.model.executionState = "running"; // Its prompt is [*].
        wait.say("waiting for the cells before it");
      }
      await before;
      if (cell.isDisposed) return false;
      if (queue.round !== round) {
        cell.model.executionState = "idle";
        return false;
      }
      queue.running = wait;
      wait.restart(); // The seconds are those of this cell alone.
      wait.say(compiling);
      yielding = setInterval(() => { if (queue.length > 1) tellPanel("dmlx-end"); }, repeatEvery); // Another cell waits.
      ok = await runOne(runCell, options, queue, wait);
      return ok;
    } finally {
      clearInterval(yielding);
      if (!ok) tellPanel("dmlx-gone");
      if (queue.running === wait) {
        if (!ok && !cell.isDisposed) queue.round++; // Nobody has seen a deleted one fail.
        clearInterval(queue.stopping);
        queue.running = queue.stopping = null;
      }
      queue.length--;
      wait.end();
      ended();
    }
  };

  /* Keys. */

  // Shortcuts work in the frame of a live page too (see live.js of package nb): its document hears of the keys in place
  // of JupyterLab. It is told the shortcuts with Ctrl or Cmd, and tells when one is typed.
  const hearFrames = (commands) => {
    addEventListener("message", ({source, data}) => {
      const frame = [...document.querySelectorAll(".dmlx-live iframe")].find((f) => f.contentWindow === source);
      if (!frame || !data) return;
      if (data.dmlx === "ready") {
        const keys = commands.keyBindings.filter((b) => b.keys.length === 1).map((b) => b.keys[0]);
        source.postMessage({dmlx: "shortcuts", keys}, "*"); // The frame has no origin that could be named.
      } else if (data.dmlx === "key" && (data.key.ctrlKey || data.key.metaKey)) { // A page must not type "d", "d".
        frame.dispatchEvent(new KeyboardEvent("keydown", {...data.key, bubbles: true, cancelable: true}));
      }
    });
  };

  /* Styles: the cards of the contents page, and pictures and live pages in a dark theme. A figure is a PNG on white,
   * and a photograph a JPEG. Inverting a figure and turning its hues back makes white black and keeps blue blue;
   * screen then shows the theme's background in place of black. Figures with photographs among their panels, which ask
   * for a light background, are only dimmed. What is saved, for GitHub and for print, stays as it is. */
  const styles = `
    .jp-RenderedMarkdown td { vertical-align: top; }
    [data-jp-theme-light="false"] .dmlx-live iframe { color-scheme: dark; }
    [data-jp-theme-light="true"] .dmlx-live iframe { color-scheme: light; }
    [data-jp-theme-light="false"] :is(.jp-OutputArea, .jp-RenderedMarkdown) img[src^="data:image/png"]:not(.jp-needs-light-background) {
      filter: invert(1) hue-rotate(180deg); mix-blend-mode: screen;
    }
    [data-jp-theme-light="false"] :is(.jp-needs-light-background, img[src^="data:image/jpeg"]) { filter: brightness(0.75); }
    [data-jp-theme-light="false"] .jp-OutputArea :is(td, span)[style*="background:#"] { filter: invert(1) hue-rotate(180deg); }
    .jp-RenderedImage { overflow-x: auto; }
    .jp-RenderedMarkdown table:has(td img) { display: grid; grid-template-columns: repeat(auto-fill, minmax(7rem, 1fr)); }
    .jp-RenderedMarkdown table:has(td img) :is(tbody, tr) { display: contents; }
    .jp-RenderedMarkdown table:has(td img) :is(thead, td:empty) { display: none; }
    .jp-RenderedHTML table:has(td:nth-child(15)) :is(td, th) { padding: 2px !important; font-size: 11px; }
    .jp-RenderedHTML table:has(td:nth-child(15)) th { font-size: 10px; }
    .jp-RenderedHTML table :is(sub, sup) { font-size: max(10px, 0.8em); }
    @media (max-width: 62rem) {
      .jp-RenderedHTML :is(td, th) { padding: 2px 4px !important; }
      .jp-RenderedHTML table:has(td:nth-child(11)) :is(td, th) { padding: 2px !important; }
      .jp-OutputPrompt, .jp-OutputArea-promptOverlay, .jp-MarkdownCell .jp-InputPrompt { display: none; }
    }
    .jp-OutputArea-child:has(.dmlx-earlier) ~ .jp-OutputArea-child { opacity: 0.35; }
    .dmlx-still > div:last-child { cursor: pointer; color: var(--jp-content-link-color); }
    .dmlx-earlier { color: var(--jp-ui-font-color2); border-top: 1px solid var(--jp-border-color2); margin-top: 6px; }`;

  /* Pictures: JupyterLab's renderer leaves their alternative text empty, which is in the output's metadata. */
  const describePictures = (registry) => {
    const plainImages = registry.getFactory("image/png"), own = ["image/png", "image/jpeg"];
    registry.addFactory({safe: true, mimeTypes: own, createRenderer: (options) => {
      const renderer = plainImages.createRenderer(options), render = renderer.renderModel.bind(renderer);
      renderer.renderModel = async (model) => {
        await render(model);
        const image = renderer.node.querySelector("img");
        if (!image) return;
        if (typeof model.metadata.alt === "string") image.alt = model.metadata.alt;
        // A narrow window scrolls a picture, whose least letters have just ten pixels.
        if (image.hasAttribute("width")) image.style.minWidth = `${0.96 * image.getAttribute("width")}px`;
      };
      return renderer;
    }}, 50); // Before JupyterLab's own, whose rank is 90.
  };

  /* What is still set up, in the status bar. "dmlx lab" opens before it is complete, and writes a file beside this one. */
  let doing = [];
  const watchSetup = (statusBar, Widget) => {
    const node = document.createElement("span"), item = new Widget({node});
    node.className = "dmlx-setup jp-StatusBar-TextItem";
    statusBar?.registerStatusItem("dmlx-cells:setup", {item, align: "left", rank: 20});
    const url = JSON.parse(document.getElementById("jupyter-config-data").textContent).baseUrl + "lab/extensions/dmlx-cells/static/setup.json";
    const look = async () => {
      const before = doing;
      let failed = [];
      try {
        const answer = await fetch(url, {cache: "no-store"});
        const said = answer.ok ? await answer.json() : {};
        [doing, failed] = [said.doing || [], said.failed || []];
      } catch { /* JupyterLab has stopped, which it says itself. */ }
      if (doing.length || failed.length) {
        node.textContent = (doing.length ? `Setting up: ${doing.join("; ")} … ` : "") + (failed.length ? `Not set up: ${failed.join("; ")}; see the terminal.` : "");
      } else if (before.length) {
        node.textContent = "Set up. Restart a kernel to have its code completed.";
      }
      if (doing.length || before.length) setTimeout(look, 1000);
    };
    look();
    setTimeout(look, 5000); // It may begin after this.
  };

  /* The interface of a federated extension. */

  let shared;
  const load = async (name) => (await Object.values(shared[name])[0].get())();
  window._JUPYTERLAB = window._JUPYTERLAB || {};
  window._JUPYTERLAB["dmlx-cells"] = {
    init: (scope) => { shared = scope; },
    get: async () => {
      const {INotebookCellExecutor, runCell} = await load("@jupyterlab/notebook");
      const {IRenderMimeRegistry} = await load("@jupyterlab/rendermime"), {IStatusBar} = await load("@jupyterlab/statusbar");
      const {Widget} = await load("@lumino/widgets");
      const plugin = {
        id: "dmlx-cells:executor",
        description: "Runs cells one by one and keeps their outputs until there are new ones.",
        autoStart: true,
        provides: INotebookCellExecutor,
        requires: [IRenderMimeRegistry],
        optional: [IStatusBar],
        activate: (app, registry, statusBar) => {
          watchSetup(statusBar, Widget);
          describePictures(registry);
          hearFrames(app.commands);
          app.restored.then(() => { if (innerWidth < 700) app.shell.collapseLeft?.(); }); // A phone has no room for the list of files.
          addEventListener("click", ({target}) => { // The click has made its cell the active one.
            if (target.closest(".dmlx-still > div:last-child")) app.commands.execute("notebook:run-cell");
          });
          app.docRegistry.addWidgetExtension("Notebook", {createNew: (_, {path, sessionContext}) => { // The contents page has no code.
            if (path.endsWith("notebooks/index.ipynb")) sessionContext.kernelPreference = {...sessionContext.kernelPreference, shouldStart: false};
          }});
          const style = document.createElement("style");
          style.textContent = styles;
          document.head.append(style);
          return Object.freeze({runCell: (options) => run(runCell, options)});
        },
      };
      return () => ({__esModule: true, default: plugin});
    },
  };
})();
