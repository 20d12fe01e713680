"""Makes preprocess.json, what EvaluationPixels is compared with: torchvision's Resize and CenterCrop of made images.

    pip install torch torchvision pillow==11.3.0 && python preprocess.py > preprocess.json
"""
import json

from PIL import Image
from torchvision import transforms


def pattern(w, h):
    img = Image.new("RGBA", (w, h))
    for y in range(h):
        for x in range(w):
            img.putpixel((x, y), ((x * 37 + y * 11) % 256, (x * y) % 251, (x * x + 3 * y) % 256, 255 - (x + y) % 2 * 55))
    return img


cases = []
for w, h, resize, crop in [(40, 30, 16, 14), (23, 57, 16, 9), (12, 12, 16, 14), (16, 20, 16, 14), (9, 31, 20, 20), (101, 77, 24, 21)]:
    steps = transforms.Compose([transforms.Resize(resize), transforms.CenterCrop(crop)])
    out = steps(pattern(w, h).convert("RGB"))
    cases.append({"Width": w, "Height": h, "Resize": resize, "Crop": crop, "Pixels": list(out.tobytes())})
print(json.dumps(cases, separators=(",", ":")))
