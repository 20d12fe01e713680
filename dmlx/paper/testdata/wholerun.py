"""Redoes a whole training of a network from a file in PyTorch, on the same batches, and compares each step.

    go build -o /tmp/dmlx ./dmlx/cmd/dmlx && go test -c -o /tmp/train.test ./dmlx/train
    python wholerun.py /tmp/dmlx /tmp/train.test lite0.onnx cars-160/train cars-160/test   # with torch, timm, onnx, safetensors, pillow

As in dmlx/paper/photographs.md: the last two stages of EfficientNet-Lite0 and a random last layer, 150 steps of the rule
euc/con/con at rate 0.6, a tenth of it after 60 %, batch normalization frozen; but 8 classes × 4 images a batch and no flips.
float64 is the reference: both float32 runs are as far from it as rounding leads.
"""
import os
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import timm
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

dmlx, steps_by, network, train, test = sys.argv[1:6]
rule, rate, steps, classes, each, size = "euc/con/con", 0.6, 150, 8, 4, 128
trained = r"blocks\.6\.|conv_head|^bn2|^fc"
random = np.random.default_rng(1)
torch.manual_seed(1)
torch.set_num_threads(1)


def image(path):  # Columns first, as Pillow up to 12 does.
    picture = Image.open(path).convert("RGB")
    picture = picture.resize((size, picture.height), Image.Resampling.BICUBIC)
    return np.asarray(picture.resize((size, size), Image.Resampling.BICUBIC))


def folder(path):
    return [(k, os.path.join(path, name, file)) for k, name in enumerate(sorted(os.listdir(path)))
            for file in sorted(os.listdir(os.path.join(path, name)))]


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = timm.create_model("tf_efficientnet_lite0", pretrained=False, num_classes=0)
        self.fc = torch.nn.Linear(self.net.num_features, 64)

    def forward(self, pixels):
        x = (pixels.permute(0, 3, 1, 2).to(self.fc.weight.dtype) / 255 - 0.5) / 0.5
        return torch.nn.functional.normalize(self.fc(self.net(x)))


def run(start, dtype):
    model = Net()
    model.load_state_dict(start, strict=False)
    model.to(dtype).eval()
    some = [p for name, p in model.named_parameters()
            if re.search(trained, name.removeprefix("net.")) and not re.search(r"(^|\.)bn\d", name)]
    for p in model.parameters():
        p.requires_grad_(any(p is q for q in some))
    out = []
    for k in range(steps):
        optimizer = torch.optim.SGD(some, lr=rate * (0.1 if k >= 0.6 * steps else 1))
        embeddings = model(torch.from_numpy(pixels[k]))
        optimizer.zero_grad()
        loss = Surgery()(embeddings, torch.from_numpy(labels[k]))
        loss.backward()
        optimizer.step()
        out.append(embeddings.detach().double().numpy())
    return np.stack(out), model


def recall(model):
    files = folder(test)
    with torch.no_grad():
        f = torch.cat([model(torch.from_numpy(np.stack([image(p) for _, p in files[i:i + 128]])))
                       for i in range(0, len(files), 128)]).float()
    s = f @ f.T
    s.fill_diagonal_(-2)
    of = torch.tensor([k for k, _ in files])
    return 100 * (of[s.argmax(1)] == of).double().mean().item()


files = folder(train)
batches = []
for _ in range(steps):
    for k in random.choice(1 + files[-1][0], classes, replace=False):
        batches += [files[i] for i in random.choice([i for i, f in enumerate(files) if f[0] == k], each, replace=False)]
pixels = np.stack([image(path) for _, path in batches]).reshape(steps, -1, size, size, 3)
labels = np.array([k for k, _ in batches]).reshape(steps, -1)

weights = {t.name: torch.from_numpy(onnx.numpy_helper.to_array(t).copy()) for t in onnx.load(network).graph.initializer}
start = Net().state_dict()
for name in start:
    if name.removeprefix("net.") in weights:
        start[name] = weights[name.removeprefix("net.")]

with tempfile.TemporaryDirectory() as dir:
    file = lambda name: os.path.join(dir, name)
    code = subprocess.run([dmlx, "rule", rule, "--pytorch"], check=True, capture_output=True, text=True).stdout
    exec(compile(code, "surgery.py", "exec"))
    save_file({k.removeprefix("net."): v.contiguous() for k, v in start.items() if "num_batches" not in k}, file("w.safetensors"))
    np.save(file("p.npy"), pixels)
    np.save(file("l.npy"), labels.astype(np.int64))
    subprocess.run([steps_by, "--arch", network, "--weights", file("w.safetensors"), "--pixels", file("p.npy"),
                    "--labels", file("l.npy"), "--rule", rule, "--lr", str(rate), "--schedule", "step?at=0.6&factor=0.1",
                    "--train-only", trained, "--freeze-bn", "all", "--out", file("out")], check=True, stdout=subprocess.DEVNULL,
                   env={**os.environ, "DMLX_TEST_STEPS": "1"})
    ours = np.load(file("out/embeddings.npy")).astype(np.float64)
    ended = load_file(file("out/weights.safetensors"))

exact, model64 = run(start, torch.float64)
theirs, model32 = run(start, torch.float32)
ourselves = Net()
ourselves.load_state_dict({("" if k.startswith("fc.") else "net.") + k: v for k, v in ended.items()}, strict=False)
print(f"torch {torch.__version__}, timm {timm.__version__}: {rule}, {steps} steps of {labels.shape[1]} images, {size} px")
print("largest difference of an embedding from PyTorch's float64, by step")
print("step  dmlx     PyTorch float32")
for k in [0, 1, 9, 29, 59, 89, 119, steps - 1]:
    print(f"{k + 1:4}  {np.abs(ours[k] - exact[k]).max():.1e}  {np.abs(theirs[k] - exact[k]).max():.1e}")
print(f"Recall@1 of {len(folder(test))} test images after it: dmlx's weights {recall(ourselves.eval()):.2f}, "
      f"PyTorch's float32 {recall(model32):.2f}, float64 {recall(model64.float()):.2f}")
