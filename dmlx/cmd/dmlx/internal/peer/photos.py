"""Embeds photographs by torchvision and by `dmlx embed`, with equal weights, and prints by how much they differ.

    pip install torch torchvision safetensors numpy
    python dmlx/cmd/dmlx/internal/peer/photos.py DIR

DIR is a folder of photographs, or of such folders. What the script printed for those of ten classes of CUB is kept in
testdata/photos.txt.

Weights are random, and running statistics are those of the photographs, as a trained network's are. The exit code is
1 if a value differs by more than 1e-3.
"""

import datetime
import os
import platform
import shlex
import subprocess
import sys
import tempfile
from collections import Counter

import numpy as np
import PIL
import safetensors.torch
import torch
import torchvision
from PIL import Image
from small import flags_of, revision
from torchvision import transforms

LIMIT = 1e-3


def photographs(root):
    paths = [os.path.join(dir, name) for dir, _, names in os.walk(root) for name in names]
    return sorted(p for p in paths if p.lower().endswith((".jpg", ".jpeg", ".png")))


def layout(image):
    """What kind of file it is: pixels to a sample of chroma, across and down, or the mode of one without such."""
    layers = getattr(image, "layer", [])
    if len(layers) != 3:
        return f"{image.format} {image.mode}"
    return f"{image.format} {layers[0][1]}x{layers[0][2]}" + (" progressive" if image.info.get("progressive") else "")


@torch.no_grad()
def peer(arch, images, batch=32):
    """torchvision's features and embeddings, and its weights."""
    torch.manual_seed(1)
    net = getattr(torchvision.models, arch)(num_classes=64)
    for m in net.modules():
        if isinstance(m, torch.nn.BatchNorm2d):
            m.momentum = None  # Averages over all batches.
    net.train()
    for some in images[: 8 * batch].split(batch):
        net(some)
    net.eval()
    weights = {k: v.clone() for k, v in net.state_dict().items() if not k.endswith("num_batches_tracked")}
    fc, net.fc = net.fc, torch.nn.Identity()
    gap = torch.cat([net(some) for some in images.split(batch)])
    return {"gap": gap, "embedding": torch.nn.functional.normalize(fc(gap))}, weights


def main():
    p = flags_of(__doc__)
    p.add_argument("images", help="folder of photographs")
    p.add_argument("--arch", default="resnet18,resnet50", help="networks (default: %(default)s)")
    o = p.parse_args()
    prepare = transforms.Compose([
        transforms.Resize(256), transforms.CenterCrop(224), transforms.ToTensor(),
        transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
    ])
    kinds, images = Counter(), []
    for path in photographs(o.images):
        with Image.open(path) as image:
            kinds[layout(image)] += 1
            images.append(prepare(image.convert("RGB")))
    if not images:
        sys.exit(f"no JPEG or PNG files in {o.images}")
    print(f"dmlx {revision()} beside torch {torch.__version__}, torchvision {torchvision.__version__}, Pillow {PIL.__version__}; "
          f"{platform.system()}, {datetime.date.today()}")
    print(f"{len(images)} photographs: " + ", ".join(f"{n} {kind}" for kind, n in kinds.most_common()))
    images, good = torch.stack(images), True
    for arch in o.arch.split(","):
        wants, weights = peer(arch, images)
        for features, want in wants.items():
            with tempfile.TemporaryDirectory() as scratch:
                file, out = os.path.join(scratch, "w.safetensors"), os.path.join(scratch, "f.npy")
                safetensors.torch.save_file(weights, file)
                command = shlex.split(o.dmlx) + ["embed", "--arch", arch, "--weights", file, "--images", o.images,
                                                 "--features", features, "--out", out]
                subprocess.run(command, check=True, capture_output=True)
                off = np.abs(np.load(out) - want.numpy()).max()
            good &= bool(off <= LIMIT)
            print(f"{arch}, {features}: values up to {want.abs().max():.2f} differ by at most {off:.1e}")
            sys.stdout.flush()
    sys.exit(not good)


if __name__ == "__main__":
    main()
