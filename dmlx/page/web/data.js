"use strict";
// A user's own embeddings: CSV and .npy files, read in the page. All errors say where a file is wrong, and what would be right.

const DATA = {rows: 256, dims: 512, bytes: 4 << 20};

const plural = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;

// readCSV reads lines of an id, a label and values; a first line without numbers is a header. where(i) says where row i is.
function readCSV(text, file) {
  const lines = text.replace(/^\uFEFF/, "").split(/\r?\n/), separator = ["\t", ";"].find((c) => lines[0].includes(c)) || ","; // In many languages "0,25" is a number.
  const rows = lines.map((line, i) => ({at: `${file}, line ${i + 1}`, cells: line.split(separator).map((c) => c.trim().replace(/^"(.*)"$/, "$1"))}))
    .filter(({cells}) => cells.some(Boolean));
  const numeric = ({cells}) => cells.slice(2).some((c) => c && Number.isFinite(Number(c)));
  if (rows.length && !numeric(rows[0])) rows.shift();
  const width = rows[0]?.cells.length - 2;
  for (const {at, cells} of rows) {
    if (cells.length < 3) throw new Error(`${at}: ${plural(cells.length, "column")}; want an id, a label and one value or more.`);
    if (cells.length - 2 !== width) throw new Error(`${at}: ${plural(cells.length - 2, "value")}; want ${width}, as in the first row.`);
    const bad = cells.findIndex((c, i) => i > 1 && (!c || !Number.isFinite(Number(c))));
    if (bad >= 0) throw new Error(`${at}: value ${bad - 1} is “${cells[bad]}”; want a number such as 0.25.`);
    if (!cells[1]) throw new Error(`${at}: no label; want one in the second column.`);
  }
  return {dim: width, values: rows.flatMap(({cells}) => cells.slice(2).map(Number)), names: rows.map(({cells}) => cells[1]), ids: rows.map(({cells}) => cells[0]), where: (i) => rows[i].at};
}

// readNpy reads an array of numbers: {shape, values}.
function readNpy(buffer, file) {
  const fail = (why) => { throw new Error(`${file}: ${why}`); }, bytes = new DataView(buffer), text = new TextDecoder("latin1");
  if (buffer.byteLength < 12 || text.decode(buffer.slice(1, 6)) !== "NUMPY") fail("no .npy file; save an array by numpy.save.");
  const long = bytes.getUint8(6) > 1, start = (long ? 12 : 10) + (long ? bytes.getUint32(8, true) : bytes.getUint16(8, true)), head = text.decode(buffer.slice(long ? 12 : 10, start));
  const type = /'descr': *'([^']*)'/.exec(head)?.[1], shape = /'shape': *\(([\d, ]*)\)/.exec(head)?.[1].split(",").filter((x) => x.trim()).map(Number);
  const [get, size] = {"<f4": ["getFloat32", 4], "<f8": ["getFloat64", 8], "<i4": ["getInt32", 4], "<i8": ["getBigInt64", 8], "|u1": ["getUint8", 1]}[type] || [];
  if (!get) fail(`numbers of type ${type || "unknown"}; want float32, float64, int32, int64 or uint8: array.astype("float32").`);
  if (/'fortran_order': *True/.test(head)) fail("its columns are in sequence; want numpy.ascontiguousarray(array).");
  if (!shape || shape.length < 1 || shape.length > 2) fail(`the shape (${shape}); want (rows, values), or (rows,) for labels.`);
  const count = shape.reduce((n, x) => n * x, 1);
  if (buffer.byteLength < start + count * size) fail(`it ends early; want ${count} numbers for the shape (${shape}).`);
  return {shape, values: Array.from({length: count}, (_, i) => Number(bytes[get](start + i * size, true)))};
}

// batchOf makes a batch of rows, those of a class in sequence: {embeddings, labels, n, dim, ids, names}.
function batchOf({dim, values, names, ids, where}) {
  const n = names.length, row = (i) => values.slice(i * dim, (i + 1) * dim), classes = [...new Set(names)];
  if (n < 2 || n > DATA.rows) throw new Error(`${plural(n, "row")}; want 2 to ${DATA.rows}: keep some of each class.`);
  if (dim < 1 || dim > DATA.dims) throw new Error(`${plural(dim, "value")} a row; want 1 to ${DATA.dims}: keep the main components.`);
  if (classes.length < 2 || classes.length === n) throw new Error(`${plural(classes.length, "label")} for ${n} rows; want two labels or more, and one with two rows, or there are no triplets.`);
  for (let i = 0; i < n; i++) {
    if (!row(i).every(Number.isFinite)) throw new Error(`${where(i)}: a value that is no finite number; want numbers only.`);
    if (row(i).every((x) => x === 0)) throw new Error(`${where(i)}: all values are 0; want an embedding with a direction.`);
  }
  const order = [...names.keys()].sort((i, j) => classes.indexOf(names[i]) - classes.indexOf(names[j]) || i - j);
  return {embeddings: Float32Array.from(order.flatMap(row)), labels: Int32Array.from(order, (i) => classes.indexOf(names[i])), n, dim, ids: order.map((i) => ids[i]), names: classes};
}

// readData makes a batch of one CSV file, or of .npy files: embeddings, and their labels unless these are the first column.
async function readData(files, labeled) {
  for (const f of files) {
    if (!/\.(npy|csv)$/i.test(f.name)) throw new Error(`${f.name}: neither .csv nor .npy; want one of them.`);
    if (f.size > DATA.bytes) throw new Error(`${f.name}: ${number(f.size / 2 ** 20)} MiB; want at most ${DATA.bytes / 2 ** 20}: keep ${DATA.rows} rows.`);
  }
  if (/\.csv$/i.test(files[0].name)) return batchOf(readCSV(await files[0].text(), files[0].name));
  const arrays = await Promise.all(files.map(async (f) => ({...readNpy(await f.arrayBuffer(), f.name), name: f.name})));
  const data = arrays.find((a) => a.shape.length === 2), labels = arrays.find((a) => a.shape.length === 1);
  if (!data) throw new Error(`${files[0].name}: labels without embeddings; choose an array (rows, values) with them.`);
  const [n, width] = data.shape, where = (i) => `${data.name}, row ${i}`, ids = [...Array(n).keys()].map(String);
  if (labeled) return batchOf({dim: width - 1, values: data.values.filter((_, i) => i % width), names: ids.map((_, i) => String(data.values[i * width])), ids, where});
  if (!labels) throw new Error(`${data.name}: no labels; choose an array (rows,) with it, or say that its first column is the label.`);
  if (labels.values.length !== n) throw new Error(`${labels.name}: ${plural(labels.values.length, "label")}; want ${n}, one for each row of ${data.name}.`);
  return batchOf({dim: width, values: data.values, names: labels.values.map(String), ids, where});
}

// dataPanel is where a user chooses files, and gets a sample of what they look like.
function dataPanel(bench, back) {
  const note = el("p.about", {role: "status"}), problem = el("p.problem", {role: "alert"}), id = `c${++ids}`, labeled = check({label: "the first column of a .npy is the label", on: () => take()});
  const input = el("input", {type: "file", id, multiple: true, accept: ".csv,.npy", onchange: () => take()});
  const take = async () => {
    if (!input.files.length) return;
    problem.textContent = note.textContent = "";
    try {
      const batch = await readData([...input.files], labeled.box.checked);
      await bench.useOwn(batch);
      note.textContent = `${batch.n} rows of ${plural(batch.dim, "value")} in ${batch.names.length} classes. They stay in this page; a link to it does not have them.`;
    } catch (error) {
      problem.textContent = error.message;
    }
  };
  const sample = () => {
    const {f, n, dim, labels} = bench.a.result, line = (i) => [`image${i}`, `class${labels[i]}`, ...Array.from(f.subarray(i * dim, (i + 1) * dim), (x) => x.toFixed(4))].join(",");
    download(new Blob([["id,label", ...Array.from({length: dim}, (_, d) => `x${d + 1}`)].join(",") + "\n" + Array.from({length: n}, (_, i) => line(i) + "\n").join("")], {type: "text/csv"}), "sample.csv");
  };
  back.addEventListener("click", () => { input.value = problem.textContent = note.textContent = ""; });
  return el("details.own", {}, el("summary.action", {}, "Your data"),
    el("p.about", {}, `A CSV file with a line “id, label, values …” for each embedding, or .npy files: embeddings (rows, values), and labels (rows,) chosen with them. 2 to ${DATA.rows} rows, 1 to ${DATA.dims} values each, ` +
      `at most ${DATA.bytes / 2 ** 20} MiB. Nothing leaves the page.`),
    el("div.buttons", {}, el("label", {for: id}, "Files"), input, labeled.root, button("Download a sample", sample), back), note, problem);
}
