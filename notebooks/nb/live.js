(id, state, path) => {
  // An output may be shown twice.
  const root = document.querySelector(`.${id}:not([data-started])`);
  if (!root) return;
  root.dataset.started = "yes";
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
    const frame = document.createElement("iframe");
    frame.title = "The same, live";
    frame.src = url + "#" + state;
    frame.style.cssText = "width:100%;height:640px;border:0;position:absolute;visibility:hidden";
    addEventListener("message", ({source, data}) => {
      if (source !== frame.contentWindow || !data || data.dmlx !== "ready") return;
      frame.style.cssText = `width:100%;height:${Math.min(Math.max(data.height, 200), 4000)}px;border:0;display:block`;
      for (const still of root.querySelectorAll(".dmlx-still")) still.hidden = true;
      root.dataset.state = "live";
    });
    root.append(frame);
  };
  (async () => {
    for (const url of places) {
      if (await there(url)) return show(url);
    }
    root.dataset.state = "still";
  })();
}
