"""Exports a network for images from PyTorch to ONNX, so that `dmlx train --arch NET.onnx` can train it further. This text
is the script itself: `dmlx help onnx > export.py`.

    pip install torch timm onnx onnxscript
    python export.py vit_small_patch16_224 vit_small.onnx          # a network of timm, pretrained
    python export.py vit_small_patch14_dinov2 dinov2.onnx 224      # the same at 224 pixels
    python export.py vit_small_patch14_dinov2 dinov2.onnx any      # for images of any size, which train --set size=… gives

From Python, any module from images [N, 3, H, W] to features [N, F]:

    from export import export
    export(model, "net.onnx", size=224, mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225], source="my model")

With any, a vision transformer resamples its position embeddings (bicubic, antialiased) as timm's dynamic_img_size does,
and dmlx trains them at the size of the file. Networks that cannot, as Swin, fail to export: give their size.

optimize=False keeps the names and shapes of all weights and batch normalization as it is; the batch stays open; the
metadata say which tensors are parameters and how images are prepared, which ONNX itself does not say. dmlx follows mean,
std, size and interpolation, which is bilinear or bicubic, as Pillow up to version 12 scales.
"""
import json
import sys

import onnx
import torch


def export(model, path, size, mean, std, interpolation="bicubic", source="", parameters=None,
           any_size=False):
    model = model.eval().float()
    shapes = {0: torch.export.Dim("N")}
    if any_size:
        shapes |= {2: torch.export.Dim.DYNAMIC, 3: torch.export.Dim.DYNAMIC}
    torch.onnx.export(model, (torch.zeros(2, 3, size, size),), path, dynamo=True, optimize=False, external_data=False,
                      verbose=False, input_names=["images"], output_names=["features"],
                      dynamic_shapes=(shapes,))
    if parameters is None:
        parameters = [name for name, _ in model.named_parameters()]
    proto = onnx.load(path)
    for node in proto.graph.node:  # Traces with paths of this machine.
        node.ClearField("metadata_props")
        node.ClearField("doc_string")
    proto.graph.ClearField("value_info")
    for key, value in dict(parameters=parameters, mean=list(mean), std=list(std), size=size, interpolation=interpolation,
                           source=source).items():
        entry = proto.metadata_props.add()
        entry.key, entry.value = key, json.dumps(value)
    onnx.save(proto, path)


if __name__ == "__main__":
    import timm

    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    name, path = sys.argv[1:3]
    config = timm.data.resolve_model_data_config(timm.create_model(name, pretrained=False))
    size, any_size, options = config["input_size"][1], sys.argv[3:] == ["any"], {}
    if len(sys.argv) == 4 and not any_size:
        size = int(sys.argv[3])
    if not name.startswith(("resnet", "efficientnet", "tf_efficientnet", "mobilenet", "convnext")):
        if any_size:
            options["dynamic_img_size"] = True
        elif size != config["input_size"][1]:
            options["img_size"] = size  # Resizes the position embeddings.
    model = timm.create_model(name, pretrained=True, num_classes=0, **options)
    export(model, path, size, config["mean"], config["std"], config["interpolation"], f"timm {name}", any_size=any_size)
