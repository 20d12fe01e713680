"""What several peers have in common: the small network in PyTorch, networks as ONNX files, and the version of dmlx."""

import argparse
import runpy
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

import torch
from torchvision.models.resnet import BasicBlock


class Small(torch.nn.Module):
    """The small network: a 5x5/2 stem and four basic blocks of 16, 32, 64 and 128 channels."""

    def __init__(self, dim):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(3, 16, 5, 2, 2, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(16)
        self.layer1 = torch.nn.Sequential(BasicBlock(16, 16))
        for i, width in enumerate((32, 64, 128), 2):
            shortcut = torch.nn.Sequential(torch.nn.Conv2d(width // 2, width, 1, 2, bias=False), torch.nn.BatchNorm2d(width))
            setattr(self, f"layer{i}", torch.nn.Sequential(BasicBlock(width // 2, width, 2, shortcut)))
        self.fc = torch.nn.Linear(128, dim)

    def forward(self, x):
        x = torch.relu(self.bn1(self.conv1(x)))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


def exported(dmlx, net, path, size, mean, std):
    """Writes the ONNX file of a network of timm by the script that the command dmlx prints, and gives its path."""
    script = subprocess.run([*shlex.split(dmlx), "help", "onnx"], check=True, stdout=subprocess.PIPE, text=True).stdout
    with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
        file.write(script)
        file.flush()
        runpy.run_path(file.name)["export"](net, str(path), size, mean, std)
    return path


def revision():
    """The commit of this checkout, if it is one."""
    git = ["git", "describe", "--always", "--dirty"]
    return subprocess.run(git, capture_output=True, text=True).stdout.strip() if shutil.which("git") else ""


def flags_of(doc):
    """A parser of flags, with that of the command dmlx."""
    p = argparse.ArgumentParser(description=doc.partition("\n")[0])
    p.add_argument("--dmlx", default="go run ./dmlx/cmd/dmlx", help="the command, run in this folder (default: %(default)s)")
    p.add_argument("--steps-by", metavar="COMMAND", help="the tests of dmlx/train, which take steps (default: built by go test -c)")
    return p


def steps_by(command=None, built=[]):
    """The command that takes steps on the batches of files."""
    if not command and not built:
        built.append(str(Path(tempfile.mkdtemp(), "train.test")))
        subprocess.run(["go", "test", "-c", "-o", built[0], "./dmlx/train"], check=True)
    return ["env", "DMLX_TEST_STEPS=1", *shlex.split(command or built[0])]
