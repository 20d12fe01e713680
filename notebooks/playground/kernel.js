(id, kernel) => {
  // The page is in a frame; the program of the cell answers its requests, which pass through here.
  const root = document.getElementById(id);
  if (!root || root.dataset.started) return;
  root.dataset.started = "yes";
  // GoNB, which connects after this, knows nothing of the paths of a JupyterHub or a proxy, nor of TLS.
  const {baseUrl} = JSON.parse(document.getElementById("jupyter-config-data")?.textContent || '{"baseUrl": "/"}');
  const Socket = globalThis.WebSocket, wrong = `ws://${location.host}/api/kernels/`;
  const right = `${location.origin.replace("http", "ws")}${baseUrl}api/kernels/`;
  if (right !== wrong && !Socket.rebased) {
    globalThis.WebSocket = class extends Socket {
      static rebased = true;
      constructor(url, protocols) { super(String(url).replace(wrong, right), protocols); }
    };
  }
  const frame = root.querySelector("iframe"), button = root.querySelector("button"), waiting = [], began = performance.now();
  let comm = null, listens = false, silent = 0;
  const answer = (text) => frame.contentWindow?.postMessage({dmlx: "answer", text}, "*");
  const tell = (message) => comm?.send("/dmlx/in/" + id, message);
  const send = (message) => listens ? tell(message) : waiting.push(message);
  const fail = () => {
    clearInterval(timer);
    if (root.dataset.state === "failed") return;
    root.dataset.state = "failed";
    button.disabled = true;
    root.querySelector(".asleep").hidden = false;
    answer(JSON.stringify({failed: "This panel's program has ended. Run the cell again (Shift-Enter) to wake the controls."}));
  };
  const heard = (text) => {
    silent = 0;
    listens = true; // It did not yet when its page was shown.
    for (const message of waiting.splice(0)) tell(message);
    if (text !== "{}") answer(text); // Else it answers a beat.
  };
  addEventListener("message", ({source, data}) => {
    if (source !== frame.contentWindow || !data) return;
    if (data.dmlx === "ask") send(data.text);
    if (data.dmlx === "state") send(JSON.stringify({state: data.state}));
    if (data.dmlx === "said") send(JSON.stringify({said: data.text}));
    if (data.dmlx === "ready") {
      frame.style.height = `${Math.min(Math.max(data.height, 120), data.scrolls ? 0.8 * innerHeight : 4000)}px`;
      root.dataset.state = "ready";
    }
  });
  frame.srcdoc = frame.dataset.page; // Now that its messages are heard.
  const end = () => send(JSON.stringify({end: true}));
  button.addEventListener("click", end);
  // The cell is run again, or another cell waits: see the extension of "dmlx lab".
  root.addEventListener("dmlx-end", end);
  root.addEventListener("dmlx-gone", () => fail());
  // The program ends when it hears nothing for a while, so that it does not outlive its page.
  let last = 0;
  const timer = setInterval(() => {
    const candidate = globalThis.gonb_comm, now = performance.now();
    if (!root.isConnected) return clearInterval(timer); // The cell was run again, or is deleted.
    // GoNB makes it anew for a program that a busy browser does not answer at once: until then it is an earlier program's.
    if (!listens && candidate && candidate !== comm && (!kernel || candidate._kernel_id === kernel)) {
      comm = candidate;
      comm.subscribe("/dmlx/out/" + id, (_, text) => heard(text));
    }
    if (comm ? comm !== candidate || silent >= 10 : now - began > 20000) return fail();
    if (!comm || (listens && now - last < 1000)) return;
    last = now;
    if (listens) silent++;
    tell(JSON.stringify({beat: true, hidden: document.hidden}));
  }, 100);
}
