"""Writes the .pth files of this folder.

    python weights.py ../weights/small.safetensors    # with torch; the names and shapes are taken from there

types.pth and types-legacy.pth hold tensors of all floating types, views and transposed ones. small.pth is a checkpoint
of a small network in which each tensor has one value everywhere, as a view of a single number, so that the file is small.
"""

import argparse
import json
import os
import struct
import sys

import torch

here = os.path.dirname(os.path.abspath(__file__))
base = torch.arange(24, dtype=torch.float32) / 8 - 1
types = {
    "float32": base.view(2, 3, 4),
    "float64": base.double(),
    "float16": base.half(),
    "bfloat16": base.bfloat16(),
    "transposed": base.view(4, 6).T,
    "view": base[5:9],
    "scalar": base[7],
    "empty": torch.zeros(0, 3),
    "counter": torch.tensor(41),
    "parameter": torch.nn.Parameter(base[:2].clone()),
    "large": torch.tensor([2**40 + 1, -3]),
}
torch.save(types, os.path.join(here, "types.pth"))
torch.save(types, os.path.join(here, "types-legacy.pth"), _use_new_zipfile_serialization=False)

with open(sys.argv[1], "rb") as f:
    (size,) = struct.unpack("<Q", f.read(8))
    header = json.loads(f.read(size))
header.pop("__metadata__", None)
header |= {"fc.weight": {"shape": [2, 128]}, "fc.bias": {"shape": [2]}}
state = {}
for i, name in enumerate(sorted(header)):
    state["module." + name] = torch.tensor([0.01 * (i + 1)]).expand(header[name]["shape"])
optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(2))], lr=0.1, momentum=0.9)
torch.save({"epoch": 3, "args": argparse.Namespace(lr=0.1), "state_dict": state, "optimizer": optimizer.state_dict()},
           os.path.join(here, "small.pth"))
