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
for i, name in enumerate(n for n in ("fc", "fc1", "fc2") if n + ".weight" in f.keys()):
    x = torch.nn.functional.linear(torch.relu(x) if i else x, f.get_tensor(name + ".weight"), f.get_tensor(name + ".bias"))
torch_embeddings = torch.nn.functional.normalize(x).numpy()
for what, values in ("ONNX Runtime", got), ("PyTorch", torch_embeddings):
    difference = abs(values - want).max()
    print(what, difference)
    if not difference <= 1e-6:
        sys.exit(f"{what} differs by {difference}")
