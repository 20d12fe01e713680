// The worker of the page. The build puts Go's wasm_exec.js in front of it. Its first message has the program;
// then each message is a request {id, method, args}, and each answer {id, ms, result} or {id, error}.
"use strict";

// Arrays travel beside the JSON of the other arguments.
const splitArguments = (args) => {
  const arrays = {};
  const rest = {};
  for (const [name, value] of Object.entries(args || {})) {
    if (ArrayBuffer.isView(value)) arrays[name] = new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
    else if (value instanceof ArrayBuffer) arrays[name] = new Uint8Array(value);
    else if (value !== undefined && value !== null) rest[name] = value;
  }
  return [JSON.stringify(rest), arrays];
};

// The buffers of an answer, which are handed over rather than copied.
const buffersOf = (value, found = new Set()) => {
  if (ArrayBuffer.isView(value)) found.add(value.buffer);
  else if (value && typeof value === "object") for (const v of Object.values(value)) buffersOf(v, found);
  return found;
};

const startProgram = async (program) => {
  const go = new Go();
  const ready = new Promise((resolve, reject) => {
    globalThis.dmlxReady = (problem) => (problem ? reject(new Error(problem)) : resolve());
  });
  const {instance} = await WebAssembly.instantiate(program, go.importObject);
  const ended = go.run(instance).then(() => {
    throw new Error("the program has ended");
  });
  await Promise.race([ready, ended]);
  ended.catch(() => postMessage({failed: "The computation has ended. Reload the page."}));
};

let started = null;
onmessage = async ({data}) => {
  if (!started) {
    started = startProgram(data.program);
    try {
      await started;
      postMessage({ready: true});
    } catch (error) {
      postMessage({failed: `The computation does not start (${error.message}): reload the page.`});
    }
    return;
  }
  try {
    await started;
    const answer = dmlxAnswer(data.method, ...splitArguments(data.args));
    answer.id = data.id;
    postMessage(answer, [...buffersOf(answer.result)]);
  } catch (error) {
    postMessage({id: data.id, error: "The computation failed: " + error.message});
  }
};
