"""Compares the networks that "dmlx weights onnx" exports with torchvision's and with "dmlx embed".

    go build -o /tmp/dmlx ./dmlx/cmd/dmlx
    python exported.py /tmp/dmlx > testdata/onnx.txt      # with torch, torchvision, onnx, onnxruntime and pillow

ResNet-18 and ResNet-50 have random weights and random running averages, saved by torch.save. The small network's are
those that come with the program, with the network's features. Images are random.
"""

import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
import torch
import torchvision
from PIL import Image

dmlx = sys.argv[1]
print(f"torch {torch.__version__}, torchvision {torchvision.__version__}, onnx {onnx.__version__}, "
      f"onnxruntime {onnxruntime.__version__}")
torch.manual_seed(0)


def run(path, images):
    onnx.checker.check_model(path, full_check=True)
    net = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return net.run(None, {"images": images})[0], net.get_modelmeta().custom_metadata_map


def report(what, got, want):
    print(f"{what:46} {str(got.shape):12} largest difference {np.abs(got - want).max():.1e} of {np.abs(want).max():.2g}")


with tempfile.TemporaryDirectory() as dir:
    file = lambda name: os.path.join(dir, name)
    for name in "resnet18", "resnet50":
        net = getattr(torchvision.models, name)(num_classes=64).eval()
        for module in net.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                module.running_mean.normal_(0, 0.1)
                module.running_var.uniform_(0.5, 1.5)
                module.weight.data.uniform_(0.5, 1.0)
        torch.save(net.state_dict(), file(name + ".pth"))
        for size, count in (224, 2), (97, 3):
            x = torch.randn(count, 3, size, size)
            for features in "embedding", "gap":
                subprocess.run([dmlx, "weights", "onnx", file(name + ".pth"), "--out", file("net.onnx"), "--features", features],
                               check=True, capture_output=True)
                got, _ = run(file("net.onnx"), x.numpy())
                with torch.no_grad():
                    head, net.fc = net.fc, net.fc if features == "embedding" else torch.nn.Identity()
                    want = net(x)
                    net.fc = head
                if features == "embedding":
                    want = torch.nn.functional.normalize(want)
                report(f"{name}, {features}, {size} pixels, torchvision", got, want.numpy())

    os.mkdir(file("images"))
    pixels = np.random.default_rng(0).integers(0, 256, (5, 32, 32, 3), dtype=np.uint8)
    for i, p in enumerate(pixels):
        Image.fromarray(p).save(file(f"images/{i}.png"))
    weights = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../../backbone/weights/small.safetensors")
    subprocess.run([dmlx, "weights", "onnx", weights, "--out", file("net.onnx"), "--features", "gap"], check=True,
                   capture_output=True)
    subprocess.run([dmlx, "embed", "--weights", weights, "--images", file("images"), "--features", "gap", "--out",
                    file("f.npy")], check=True, capture_output=True)
    net = onnxruntime.InferenceSession(file("net.onnx"))
    meta = net.get_modelmeta().custom_metadata_map
    x = (pixels / np.float32(255) - np.float32(json.loads(meta["mean"]))) / np.float32(json.loads(meta["std"]))
    got, _ = run(file("net.onnx"), x.transpose(0, 3, 1, 2).astype(np.float32))
    report(f"small, gap, {meta['crop']} pixels, dmlx embed", got, np.load(file("f.npy")))
