(element, state, path) => {
  const ended = window.dmlxGuesses ??= new Set(); // A guess is asked for once, until the document is opened again.
  if (ended.has(state)) return;
  const guess = state.startsWith("view=guess"); // It hides the cell's outputs above it, and has a button of its own that skips it.
  const root = document.createElement("div");
  root.className = "dmlx-live";
  root.style.position = "relative";
  element.append(root);
  // JupyterLab serves the files of its folder below files/; elsewhere the page lies beside this document.
  const lab = document.getElementById("jupyter-config-data");
  const name = path.split("/").pop();
  let places = [name];
  if (lab) {
    const base = JSON.parse(lab.textContent).baseUrl;
    places = [base + "files/" + path, base + "files/" + name];
  }
  const there = async (url) => {
    if (location.protocol === "file:") return true; // A frame without the page stays hidden.
    try {
      return (await fetch(url, {method: "HEAD"})).ok;
    } catch {
      return false;
    }
  };
  const show = (url) => {
    const frame = document.createElement("iframe"), swap = document.createElement("button");
    frame.title = "The live version";
    frame.src = url + "#" + state;
    frame.style.cssText = "width:100%;height:640px;border:0;position:absolute;visibility:hidden";
    const live = (on) => {
      let above = element.closest(".jp-OutputArea-child")?.previousElementSibling; // The output with the picture.
      if (above && !guess) above.style.display = on ? "none" : "";
      for (; above && guess; above = above.previousElementSibling) Object.assign(above.style, on ? {position: "absolute", visibility: "hidden", maxWidth: "80%"} : {position: "", visibility: "", maxWidth: ""});
      frame.hidden = !on;
      swap.textContent = on ? "Show the picture" : "Show the live version";
      root.dataset.state = on ? "live" : "still";
    };
    addEventListener("message", ({source, data}) => {
      if (source !== frame.contentWindow || !data) return;
      if (data.dmlx === "shown" || data.dmlx === "skipped") {
        ended.add(state);
        live(false);
        frame.hidden = data.dmlx === "skipped";
        root.dataset.state = "live";
      }
      if (data.dmlx !== "ready") return;
      if (root.dataset.state !== "still") frame.style.cssText = `width:100%;height:${Math.min(Math.max(data.height, 200), data.scrolls ? 0.8 * innerHeight : 4000)}px;border:0`;
      if (root.dataset.state) return;
      swap.type = "button";
      swap.addEventListener("click", () => live(frame.hidden));
      if (!guess) root.append(swap);
      live(true);
    });
    root.append(frame);
  };
  (async () => {
    for (const url of places) {
      if (await there(url)) return show(url);
    }
    root.dataset.state = "still";
    root.textContent = "Interactive with the command dmlx lab, which makes " + name + ".";
  })();
}
