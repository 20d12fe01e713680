// The page's side of the worker; see PROTOCOL.md. DMLX.start() resolves to an engine with call(method, args) and
// latest(key, method, args).
"use strict";

const DMLX = (() => {
  const bytesOf = (base64) => {
    if (Uint8Array.fromBase64) return Uint8Array.fromBase64(base64).buffer;
    const text = atob(base64);
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    return bytes.buffer;
  };

  const fetched = async (name) => {
    const response = await fetch(name).catch((error) => ({statusText: error.message}));
    if (!response.ok) throw new Error(`${name} could not be loaded: ${response.status || ""} ${response.statusText}`);
    return response.arrayBuffer();
  };

  // load gets a file of the page and unpacks it. In a single file an element of the id holds it in base64.
  const load = async (name, id) => {
    const inside = document.getElementById(id), bytes = inside ? bytesOf(inside.textContent.trim()) : await fetched(name);
    const [first, second] = new Uint8Array(bytes);
    if (first !== 0x1f || second !== 0x8b) return bytes; // A server may have unpacked it already.
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).arrayBuffer().catch(() => { throw new Error(`${name} is damaged: reload the page.`); });
  };

  const base64Of = (array) => {
    const bytes = array instanceof ArrayBuffer ? new Uint8Array(array) : new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
    let text = "";
    for (let i = 0; i < bytes.length; i += 32768) text += String.fromCharCode(...bytes.subarray(i, i + 32768));
    return btoa(text);
  };

  // kernel stands for a worker where a notebook's program answers: the document around this frame passes messages on.
  const kernel = () => {
    const pack = (_, v) => ArrayBuffer.isView(v) || v instanceof ArrayBuffer ? {[v instanceof ArrayBuffer ? "Uint8Array" : v.constructor.name]: base64Of(v)} : v;
    const unpack = (_, v) => {
      for (const type of [Float32Array, Int32Array]) if (v && Object.hasOwn(v, type.name)) return new type(bytesOf(v[type.name]));
      return v;
    };
    const w = {postMessage: (message) => parent.postMessage({dmlx: "ask", text: JSON.stringify(message, pack)}, "*"), terminate() {}};
    addEventListener("message", ({source, data}) => {
      if (source === parent && data?.dmlx === "answer") w.onmessage({data: JSON.parse(data.text, unpack)});
    });
    return w;
  };

  const open = async () => {
    if (document.body.dataset.state?.startsWith("#kernel")) return [kernel(), null];
    if (typeof DecompressionStream === "undefined" || typeof WebAssembly === "undefined") {
      throw new Error("This browser is too old for the page: it has no WebAssembly or no DecompressionStream.");
    }
    const inside = document.getElementById("dmlx-worker");
    if (!inside && location.protocol === "file:") {
      throw new Error("A browser does not load a program from beside a file. Open the single-file page instead, or serve " +
        "this folder.");
    }
    const program = await load("main.wasm.gz", "dmlx-program"); // First, since a worker's error is told once.
    const url = inside ? URL.createObjectURL(new Blob([inside.textContent], {type: "text/javascript"})) : "worker.js";
    const worker = new Worker(url);
    URL.revokeObjectURL(url);
    return [worker, program];
  };

  const start = async () => {
    const [worker, program] = await open();
    const open_ = new Map(); // Requests under way, by id.
    const slots = new Map(); // By key: the call under way and the one waiting.
    let last = 0, ended = "";
    const end = (why) => {
      ended = why;
      for (const {reject} of open_.values()) reject(new Error(why));
      open_.clear();
    };
    await new Promise((resolve, reject) => {
      worker.onmessage = ({data}) => (data.ready ? resolve() : reject(new Error(data.failed)));
      worker.onerror = (event) => reject(new Error(`worker.js does not start (${event.message || "not loaded"}): reload the page.`));
      worker.postMessage({program}, program ? [program] : []);
    });
    worker.onmessage = ({data}) => {
      if (data.failed) return end(data.failed);
      const request = open_.get(data.id);
      if (!request) return;
      open_.delete(data.id);
      if (data.error) request.reject(new Error(data.error));
      else request.resolve(Object.assign(data.result, {ms: data.ms}));
    };
    worker.onerror = (event) => end("The computation has ended: " + (event.message || "unknown reason"));

    const call = (method, args = {}) => new Promise((resolve, reject) => {
      if (ended) return reject(new Error(ended));
      const id = ++last;
      open_.set(id, {resolve, reject});
      worker.postMessage({id, method, args});
    });
    const latest = (key, method, args) => {
      const slot = slots.get(key) || {busy: false, waiting: null};
      slots.set(key, slot);
      const run = () => {
        slot.busy = true;
        return call(method, args).finally(() => {
          slot.busy = false;
          const next = slot.waiting;
          slot.waiting = null;
          if (next) next.run();
        });
      };
      if (!slot.busy) return run();
      if (slot.waiting) slot.waiting.drop();
      return new Promise((resolve, reject) => {
        slot.waiting = {run: () => run().then(resolve, reject), drop: () => resolve(null)};
      });
    };
    return {call, latest, close: () => { worker.terminate(); end("The computation was closed."); }};
  };
  return {start, load};
})();

// In a frame, as a notebook's cell is one, the page tells the document around it that it is ready and how high it is.
if (parent !== window) {
  addEventListener("DOMContentLoaded", () => {
    const tell = () => {
      if (!document.body.dataset.ready) return;
      const scrolls = document.body.dataset.view === "bench" && matchMedia("(max-width: 69.99rem)").matches; // Below a strip of pictures.
      parent.postMessage({dmlx: "ready", scrolls, height: Math.ceil(document.body.getBoundingClientRect().height)}, "*");
    };
    new MutationObserver(tell).observe(document.body, {attributes: true, attributeFilter: ["data-ready"]});
    new ResizeObserver(tell).observe(document.body);
  });

  // JupyterLab answers with its shortcuts, and hears of those that are typed here, such as Ctrl+S. The page and the
  // browser keep all other keys, and those that edit a text.
  const shortcuts = new Set();
  addEventListener("message", ({source, data}) => {
    if (source === parent && data?.dmlx === "shortcuts") data.keys.forEach((keys) => shortcuts.add(keys));
  });
  addEventListener("keydown", (e) => {
    const {key, code, keyCode, ctrlKey, altKey, shiftKey, metaKey} = e, name = key.length === 1 ? key.toUpperCase() : key;
    const pressed = [ctrlKey && "Ctrl", altKey && "Alt", shiftKey && "Shift", metaKey && "Cmd", name].filter(Boolean);
    const edits = name === "Z" || ("ACVXY".includes(name) && !shiftKey);
    if (!(ctrlKey || metaKey) || edits || !shortcuts.has(pressed.join(" "))) return;
    e.preventDefault();
    parent.postMessage({dmlx: "key", key: {key, code, keyCode, ctrlKey, altKey, shiftKey, metaKey}}, "*");
  });
}
