"""Exports small, seeded networks and writes PyTorch's own numbers beside them:

    python networks.py FOLDER [NAME...]

NAME.onnx is the network. NAME.json has, for a fixed input, PyTorch's distance of float32 from float64; NAME.safetensors
has the input, the target, the features and all gradients in float64 rounded to float32; NAME.json also the losses of
ten steps in both.
"""
import copy
import json
import os
import sys
import warnings
import logging

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)
import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import save_file

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from export import export

torch.set_num_threads(1)


class Pooled(nn.Module):
    def __init__(self, m):
        super().__init__()
        self.m = m

    def forward(self, x):
        return self.m(pixel_values=x).pooler_output


def make(name):
    import timm

    def t(n, **k):
        return timm.create_model(n, num_classes=0, **k)

    small = dict(embed_dim=48, num_heads=3, depth=2)
    if name in ("resnet18", "resnet50"):
        from timm.models.resnet import BasicBlock, Bottleneck, ResNet
        return ResNet(BasicBlock if name == "resnet18" else Bottleneck, [1, 1, 1, 1], num_classes=0,
                      channels=[4, 6, 8, 12], stem_width=4), 64
    if name == "efficientnet_lite0":
        return lite(), 32
    if name == "mobilenetv2":
        return t("mobilenetv2_035"), 64
    if name == "mobilenetv3":
        return t("mobilenetv3_small_050"), 64
    if name == "convnext":
        return t("convnext_atto", depths=(1, 1, 2, 1), dims=(8, 12, 16, 24)), 64
    if name == "vit_tiny":
        return t("vit_tiny_patch16_224", img_size=32, patch_size=8, embed_dim=24, num_heads=2, depth=2), 32
    if name == "vit_any":
        return t("vit_tiny_patch16_224", img_size=32, patch_size=8, embed_dim=24, num_heads=2, depth=1, dynamic_img_size=True), 32
    if name == "vit_registers":
        return t("vit_small_patch14_reg4_dinov2", img_size=56, **small), 56
    if name == "dinov2":
        return t("vit_small_patch14_dinov2", img_size=56, **small), 56
    if name == "dinov3":
        return t("vit_small_patch16_dinov3", img_size=32, patch_size=8, embed_dim=24, num_heads=2, depth=2), 32
    if name == "siglip":
        return t("vit_base_patch16_siglip_224", img_size=64, **small), 64
    if name == "deit3":
        return t("deit3_small_patch16_224", img_size=64, **small), 64
    if name == "swin":
        return t("swin_tiny_patch4_window7_224", img_size=56, embed_dim=24, depths=(1, 2), num_heads=(2, 4)), 56
    if name == "clip":
        from transformers import CLIPVisionConfig, CLIPVisionModel
        return Pooled(CLIPVisionModel(CLIPVisionConfig(hidden_size=48, intermediate_size=96, num_hidden_layers=2,
                      num_attention_heads=3, image_size=64, patch_size=16))), 64
    raise SystemExit(f"no network {name}")


def lite():
    from timm.models._efficientnet_builder import decode_arch_def, resolve_act_layer
    from timm.models.efficientnet import EfficientNet
    arch = [["ds_r1_k3_s1_e1_c4"], ["ir_r2_k3_s2_e4_c6"], ["ir_r1_k5_s2_e4_c8"], ["ir_r1_k3_s2_e4_c8"]]
    return EfficientNet(decode_arch_def(arch), num_classes=0, num_features=24, stem_size=4, fix_stem=True,
                        act_layer=nn.ReLU6)


NAMES = ["resnet18", "resnet50", "efficientnet_lite0", "mobilenetv2", "mobilenetv3", "convnext", "vit_tiny",
         "vit_any", "vit_registers", "dinov2", "dinov3", "clip", "siglip", "swin", "deit3"]


def seeded(name):
    torch.manual_seed(7)
    m, size = make(name)
    g = torch.Generator().manual_seed(11)
    with torch.no_grad():  # No layer is near zero, no bias is zero.
        for n, p in m.named_parameters():
            if p.ndim <= 1 and p.abs().mean() < 0.02:
                p.copy_((0.3 if "gamma" in n or "ls" in n else 0) + 0.05 * torch.randn(p.shape, generator=g))
        for n, b in m.named_buffers():
            if "running_mean" in n:
                b.copy_(0.05 * torch.randn(b.shape, generator=g))
            if "running_var" in n:
                b.copy_(0.5 + torch.rand(b.shape, generator=g))
    return m.eval(), size


def loss_of(f, target):
    return (F.normalize(f, dim=1) * target).sum(1).mean()


# Learning rates of SGD and AdamW. With those of the others, ten steps amplify float32's rounding here, in PyTorch, too, to
# a hundredth of the loss.
RATES = {"mobilenetv2": (1e-5, 1e-6), "convnext": (0.005, 1e-4)}


def reference(m, size, train, info, tensors, prefix):
    g = torch.Generator().manual_seed(5)
    x = torch.randn(4, 3, size, size, generator=g)
    m = copy.deepcopy(m).train(train)
    for mod in m.modules():
        if isinstance(mod, nn.Dropout):
            mod.p = 0
    d = copy.deepcopy(m).double()
    f64 = d(x.double())
    target = torch.randn(4, f64.shape[1], generator=g)
    tensors[prefix + "x"], tensors[prefix + "target"] = x.permute(0, 2, 3, 1).contiguous(), target
    tensors[prefix + "features"] = f64.detach().float()
    loss = loss_of(f64, target.double())
    loss.backward()
    truth = {n: p.grad for n, p in d.named_parameters() if p.grad is not None}
    f32 = copy.deepcopy(m)
    y = f32(x)
    loss_of(y, target).backward()
    num = sum(((p.grad.double() - truth[n]) ** 2).sum() for n, p in f32.named_parameters() if n in truth)
    info[prefix + "features32"] = ((y.double() - f64).abs().max() / f64.abs().max()).item()
    info[prefix + "gradients32"] = (num / sum((v ** 2).sum() for v in truth.values())).sqrt().item()
    for n, v in truth.items():
        tensors[prefix + "grad." + n] = v.float().contiguous()
    for name, dtype in ((n, d) for n in ("sgd", "adamw") for d in (torch.float32, torch.float64)):
        k = copy.deepcopy(m).to(dtype)
        sgd, adamw = info["rates"]
        o = torch.optim.SGD(k.parameters(), lr=sgd) if name == "sgd" else torch.optim.AdamW(k.parameters(), lr=adamw)
        losses = []
        for _ in range(10):
            o.zero_grad()
            out = loss_of(k(x.to(dtype)), target.to(dtype))
            out.backward()
            o.step()
            losses.append(out.item())
        info[prefix + name + ("" if dtype == torch.float32 else "64")] = losses


if __name__ == "__main__":
    folder, names = sys.argv[1], sys.argv[2:] or NAMES
    for name in names:
        m, size = seeded(name)
        info, tensors = {"rates": RATES.get(name, (0.05, 1e-4))}, {}
        any_size = name == "vit_any"  # At another size than that of its position embeddings.
        reference(m, 48 if any_size else size, False, info, tensors, "")
        if any(isinstance(k, nn.BatchNorm2d) for k in m.modules()):
            reference(m, size, True, info, tensors, "train.")
        export(m, f"{folder}/{name}.onnx", size, [0.5, 0.5, 0.5], [0.5, 0.5, 0.5], source=name,
               any_size=any_size)
        save_file(tensors, f"{folder}/{name}.safetensors")
        with open(f"{folder}/{name}.json", "w") as f:
            json.dump(info, f)
        print(name, os.path.getsize(f"{folder}/{name}.onnx"), info["features32"], info["gradients32"], flush=True)
