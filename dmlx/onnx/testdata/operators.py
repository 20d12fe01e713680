"""Writes small networks of one operator each, at every opset at which the operator changed and the one before it, and what
ONNX Runtime computes with them: python operators.py DIR NEWEST-OPSET OPERATOR... Needs onnx and onnxruntime."""
import json
import os
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import helper as h, numpy_helper as nh

NEWEST = int(sys.argv[2])
r = np.random.default_rng(0)
I = lambda *x: np.array(x, "i8")
f4 = lambda *s: r.normal(size=s).astype("f4")
S = lambda x: np.float32(x)


def axes(v, since, *a, **k):  # An attribute, and an input from an opset on.
    return ([I(*a)], k) if v >= since else ([], dict(axes=list(a), **k))


def clip(v, low, high):
    return (["c", S(low), S(high)], {}) if v >= 11 else (["c"], dict(min=low, max=high))


def over(x, since, *a, **k):  # Some axes of x.
    return lambda v: ([x] + axes(v, since, *a, **k)[0], axes(v, since, *a, **k)[1])


def reduction(since):
    return [over("c", since, 1, -1, keepdims=0), over("c", since, 2)]


# The inputs of a case: "x" are images, "c" images less 0.5, "m" those as a matrix, "g" their means, "q" a sequence; arrays
# are constants. v is the opset.
one = lambda **k: [lambda v: (["c"], k)]
two = lambda b: [lambda v: (["c", b], {}), lambda v: (["c", b[0, 0]], {})]
kernel = f4(4, 3, 3, 3)
bn = [np.abs(f4(3)) + .5 for _ in range(4)]
CASES = {
    **{op: one() for op in "Relu Sigmoid Tanh Exp Erf Neg Abs Sin Cos Floor Ceil Softplus HardSwish Identity "
       "GlobalAveragePool Dropout Transpose".split()},
    **{op: [lambda v: (["x"], {})] for op in ["Log", "Sqrt", "Reciprocal"]},
    **{op: two(f4(1, 3, 1, 8)) for op in "Add Sub Mul Div".split()},
    **{op: [lambda v: (["c", f4(1, 3, 1, 8)], {}), lambda v: (["c"], {})] for op in ["Min", "Max"]},
    "Pow": [lambda v: (["x", S(1.5)], {})],
    "Gelu": one() + one(approximate="tanh"),
    "LeakyRelu": one(alpha=.2), "HardSigmoid": one() + one(alpha=.3, beta=.1),
    "Clip": [lambda v: clip(v, -.2, .3), lambda v: clip(v, .3, -.2), lambda v: (["c"], {})],
    "Softmax": one() + one(axis=1) + one(axis=2) + one(axis=3),
    "LpNormalization": one(axis=1), "LayerNormalization": [lambda v: (["c", f4(8), f4(8)], {})],
    "ReduceMean": reduction(18), "ReduceMax": reduction(18), "ReduceL2": reduction(18), "ReduceSum": reduction(13),
    "Conv": [lambda v: (["c", kernel, f4(4)], dict(kernel_shape=[3, 3], strides=[2, 2], pads=[1, 0, 1, 2])),
             lambda v: (["c", f4(3, 1, 3, 3)], dict(group=3, dilations=[2, 2]))],
    "BatchNormalization": [lambda v: (["c"] + bn, {}), lambda v: (["c"] + bn, dict(epsilon=.1))],
    "MaxPool": one(kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]) +
               [lambda v: (["c"], dict(kernel_shape=[3, 3], strides=[2, 2], **({"ceil_mode": 1} if v >= 10 else {})))],
    "AveragePool": one(kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]) +
                   one(kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], count_include_pad=1) +
                   [lambda v: (["c"], dict(kernel_shape=[3, 3], strides=[2, 2], **({"ceil_mode": 1} if v >= 10 else {}))),
                    lambda v: (["c"], dict(kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 0, 0], count_include_pad=1,
                                           **({"ceil_mode": 1} if v >= 10 else {})))],
    "MatMul": [lambda v: (["c", f4(8, 5)], {}), lambda v: (["c", f4(3, 8, 5)], {})],
    "Gemm": [lambda v: (["m", f4(192, 5), f4(5)], {}), lambda v: (["m", f4(5, 192), f4(1, 5)], dict(transB=1))],
    "Resize": [lambda v: (["c", np.zeros(0, "f4"), np.zeros(0, "f4"), I(2, 3, 6, 5)],
                          dict(mode="linear", antialias=1, exclude_outside=1))],
    "Pad": [lambda v: (["c", I(0, 0, 1, 2, 0, 0, 3, 0), S(.5)], {}), lambda v: (["c", I(0, 0, 1, 2, 0, 0, 3, 0)], {})],
    "Expand": [lambda v: (["g", I(1, 1, 4, 1)], {})],
    "Slice": [lambda v: (["c", I(1, 0), I(2**62, -2), I(1, 3), I(1, 2)], {})],
    "Gather": [lambda v: (["c", I(2, 0)], dict(axis=1)), lambda v: (["c", I(*range(7, -1, -1), 3)], dict(axis=3))],
    "GatherND": [lambda v: (["c", np.array([[0, 2], [1, 1]], "i8")], {})],
    "Concat": [lambda v: (["c", "x"], dict(axis=1)), lambda v: (["c", "x"], dict(axis=2))],
    "Reshape": [lambda v: (["c", I(0, -1, 4)], {})],
    "Squeeze": [over("g", 13, 2, 3), over("g", 13, 2)],
    "Unsqueeze": [over("c", 13, 1, 4)],
    "Flatten": one() + one(axis=2),
    "Split": [lambda v: (["c"], dict(axis=3, **({"num_outputs": 2} if v >= 18 else {}))),
              lambda v: (["c"] + [I(1, 2)] * (v >= 13), dict(axis=1, **({} if v >= 13 else {"split": [1, 2]})))],
    "Cast": one(to=1), "CastLike": [lambda v: (["c", S(1)], {})],
    "Shape": [lambda v: (["c"], {})], "Constant": [lambda v: ([], dict(value=nh.from_array(f4(1, 3, 1, 1))))],
    "ConstantOfShape": [lambda v: ([I(1, 3, 1, 1)], dict(value=nh.from_array(np.array([2.5], "f4"))))],
    "Range": [lambda v: ([S(1), S(9), S(1)], {})],
    "SplitToSequence": [lambda v: (["c", I(1, 2)], dict(axis=1))], "SequenceAt": [lambda v: (["q", "at"], {})],
}


def model(op, make, v):
    inputs, attributes = make(v)
    nodes, inits, names, N = [], [nh.from_array(S(.5), "half"), nh.from_array(np.int64(1), "at"),
                                  nh.from_array(I(1, 2), "two"), nh.from_array(I(2, -1), "rows")], [], h.make_node
    for i, x in enumerate(inputs):
        names.append(x if isinstance(x, str) else "i%d" % i)
        if not isinstance(x, str):
            inits.append(nh.from_array(np.asarray(x), names[-1]))
    nodes += [N("Sub", ["x", "half"], ["c"])]
    if "m" in names:
        nodes.append(N("Flatten", ["c"], ["m"]))
    if "g" in names:
        nodes.append(N("GlobalAveragePool", ["c"], ["g"]))
    if "q" in names:
        nodes.append(N("SplitToSequence", ["c", "two"], ["q"], axis=1))
    nodes.append(N(op, names, ["y"] + ["y2"] * (op == "Split"), **attributes))
    if op == "Shape":
        nodes += [N("Cast", ["y"], ["s"], to=1), N("GlobalAveragePool", ["c"], ["g"]), N("Add", ["g", "s"], ["z"])]
    elif op == "SplitToSequence":
        nodes.append(N("SequenceAt", ["y", "at"], ["z"]))
    elif op in ["Constant", "ConstantOfShape", "Range"]:
        nodes.append(N("Mul", ["c", "y"], ["z"]))
    y = nodes[-1].output[0]
    if op == "Transpose":  # All axes in turn: the batch comes last.
        nodes.append(N("Transpose", [y], ["t"], perm=[3, 0, 2, 1]))
        y = "t"
    nodes.append(N("Reshape", [y, "rows"], ["features"]))
    value = lambda name, shape: h.make_tensor_value_info(name, 1, shape)
    graph = h.make_graph(nodes, op, [value("x", ["N", 3, 8, 8])], [value("features", ["N", None])], inits)
    m = h.make_model(graph, opset_imports=[h.make_opsetid("", v)])
    m.ir_version = 8
    return m.SerializeToString()


folder, out = sys.argv[1], []
images = r.uniform(.1, 1, (2, 3, 8, 8)).astype("f4")
versions = {}
for schema in onnx.defs.get_all_schemas_with_history():
    if schema.domain == "":
        versions.setdefault(schema.name, set()).add(schema.since_version)
for op in sys.argv[3:]:
    for v in sorted({max(7, v) for v in versions[op] if v <= NEWEST} | {NEWEST} |
                    {v - 1 for v in versions[op] if 7 < v <= NEWEST and min(versions[op]) < v}):
        for i, make in enumerate(CASES.get(op, [])):
            entry = dict(op=op, opset=v, file="%s-%d-%d.onnx" % (op, v, i))
            raw = model(op, make, v)
            try:
                options = onnxruntime.SessionOptions()
                options.log_severity_level = 4
                entry["features"] = onnxruntime.InferenceSession(raw, options).run(None, {"x": images})[0].ravel().tolist()
            except Exception as e:  # ONNX Runtime does not know the operator at this opset, or not so.
                entry["error"] = str(e)[:200]
            open(os.path.join(folder, entry["file"]), "wb").write(raw)
            out.append(entry)
json.dump(dict(images=images.ravel().tolist(), cases=out), open(os.path.join(folder, "cases.json"), "w"))
