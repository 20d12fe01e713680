// Runs the page's program in Node. Reads requests from standard input, a line of JSON each, and writes for each answer
// the error or the SHA-256 of its arrays, by name, and the milliseconds that passed and that the processor worked.
const crypto = require("crypto"), fs = require("fs"), readline = require("readline"), zlib = require("zlib");
const [support, program] = process.argv.slice(2);
require(support);

const digests = (value, prefix, out) => {
  for (const [name, v] of Object.entries(value)) {
    if (ArrayBuffer.isView(v)) {
      out[prefix + name] = crypto.createHash("sha256").update(new Uint8Array(v.buffer, v.byteOffset, v.byteLength)).digest("hex");
    } else if (v && typeof v === "object" && !Array.isArray(v)) digests(v, prefix + name + ".", out);
  }
  return out;
};

globalThis.dmlxReady = async (problem) => {
  if (problem) throw new Error(problem);
  for await (const line of readline.createInterface({input: process.stdin})) {
    const {method, args, features} = JSON.parse(line);
    const arrays = features ? {features: new Uint8Array(zlib.gunzipSync(fs.readFileSync(features)))} : {};
    const before = process.cpuUsage();
    const {result, error, ms} = dmlxAnswer(method, JSON.stringify(args), arrays);
    const used = process.cpuUsage(before), cpu = (used.user + used.system) / 1000;
    process.stdout.write(JSON.stringify({error, ms, cpu, arrays: result ? digests(result, "", {}) : {}}) + "\n");
  }
  process.exit(0);
};

(async () => {
  const go = new Go();
  const {instance} = await WebAssembly.instantiate(fs.readFileSync(program), go.importObject);
  await go.run(instance);
})();
