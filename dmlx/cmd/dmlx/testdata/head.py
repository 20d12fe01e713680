"""Compares a head's ONNX file and its weights in PyTorch with embeddings: head.py FEATURES ONNX WEIGHTS EMBEDDINGS."""
import json
import sys

import numpy
import onnxruntime
import safetensors
import torch

features, want = numpy.load(sys.argv[1]).astype("float32"), numpy.load(sys.argv[4])
got, = onnxruntime.InferenceSession(sys.argv[2]).run(None, {"features": features})
f = safetensors.safe_open(sys.argv[3], "pt")
mean, std = json.loads(f.metadata()["feature_mean"]), float(f.metadata()["feature_std"])
x = (torch.tensor(features) - torch.tensor(mean)) / std
linear = lambda name, x: torch.nn.functional.linear(x, f.get_tensor(name + ".weight"), f.get_tensor(name + ".bias"))
parts = [linear("fc", x)] if "fc.weight" in f.keys() else []
if "fc1.weight" in f.keys():
    parts.append(linear("fc2", torch.relu(linear("fc1", x))))
x = sum(parts)
torch_embeddings = torch.nn.functional.normalize(x).numpy()
for what, values in ("ONNX Runtime", got), ("PyTorch", torch_embeddings):
    difference = abs(values - want).max()
    print(what, difference)
    if not difference <= 1e-6:
        sys.exit(f"{what} differs by {difference}")
