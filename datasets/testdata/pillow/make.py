"""Writes images of every kind that DecodeRGB reads and, for each, what Pillow makes of it.

    python make.py            with Pillow 12.0 (libjpeg-turbo 3.1), NumPy and libjpeg-turbo's cjpeg; Pillow 13 scales some
                              tall images rows first, which rounds differently by one

For NAME.jpg or NAME.png, NAME.rgb.png is Image.open(NAME).convert("RGB"), as torchvision's pil_loader has it, and
NAME.SIZE.png is torchvision's Resize(SIZE) and CenterCrop(SIZE) of it, NAME.SIZE.bicubic.png the same with its bicubic interpolation.
"""

import os
import struct
import subprocess
import zlib

import numpy as np
from PIL import Image

HERE = os.path.dirname(os.path.abspath(__file__))
WIDTH, HEIGHT = 37, 29


def path(name):
    return os.path.join(HERE, name)


def picture(width=WIDTH, height=HEIGHT):
    """Slopes, an edge in color and some noise."""
    rng = np.random.default_rng(1)
    y, x = np.mgrid[:height, :width].astype(float)
    red = 255 * x / width
    green = 255 * y / height
    blue = np.where((x - 18) ** 2 + (y - 14) ** 2 < 90, 230, 40)
    out = np.stack([red, green, blue], -1) + rng.normal(0, 6, (height, width, 3))
    return Image.fromarray(np.clip(out, 0, 255).astype(np.uint8))


def png(name, kind, depth, rows, extra=b""):
    """A PNG of rows of bytes, which Pillow itself cannot write."""

    def chunk(tag, data):
        return struct.pack(">I", len(data)) + tag + data + struct.pack(">I", zlib.crc32(tag + data))

    with open(path(name), "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n")
        f.write(chunk(b"IHDR", struct.pack(">IIBBBBB", WIDTH, HEIGHT, depth, kind, 0, 0, 0)))
        f.write(extra)
        f.write(chunk(b"IDAT", zlib.compress(b"".join(b"\0" + r for r in rows))))
        f.write(chunk(b"IEND", b""))


def cjpeg(name, im, *options):
    """A JPEG of a layout that Pillow does not write."""
    ppm = os.path.join(HERE, "scratch.ppm")
    im.save(ppm)
    subprocess.run(["cjpeg", *options, "-outfile", path(name), ppm], check=True)
    os.remove(ppm)


def main():
    im = picture()
    alpha = Image.fromarray(np.linspace(0, 255, WIDTH * HEIGHT).reshape(HEIGHT, WIDTH).astype(np.uint8))

    for name, subsampling in [("444", 0), ("422", 1), ("420", 2)]:
        im.save(path(f"{name}.jpg"), quality=90, subsampling=subsampling)
    im.save(path("progressive.jpg"), quality=90, progressive=True)
    im.save(path("rgb.jpg"), quality=90, keep_rgb=True)
    im.convert("L").save(path("gray.jpg"), quality=90)
    exif = Image.Exif()
    exif[0x0112] = 6  # Turned by a quarter.
    im.save(path("turned.jpg"), quality=90, exif=exif)
    picture(2, 3).save(path("tiny.jpg"), quality=90)
    for name, sampling in [("440", "1x2"), ("411", "4x1"), ("mixed", "2x2,1x2,2x1")]:
        cjpeg(f"{name}.jpg", im, "-sample", sampling)
    cjpeg("restart.jpg", im, "-restart", "2B")
    cjpeg("passes.jpg", im, "-progressive", "-restart", "3B", "-quality", "95")
    cjpeg("coarse.jpg", im, "-quality", "1")  # Steps of quantization beyond a byte.
    with open(path("scans"), "w") as f:
        f.write("0;\n2;\n1;\n")
    cjpeg("apart.jpg", im, "-scans", path("scans"))  # A scan for each component.
    os.remove(path("scans"))
    # Four components: as Adobe writes CMYK, without its mark, and as YCCK.
    im.convert("CMYK").save(path("cmyk.jpg"), quality=90)
    with open(path("cmyk.jpg"), "rb") as f:
        cmyk = f.read()
    at = cmyk.index(b"\xff\xee")
    with open(path("unmarked.jpg"), "wb") as f:
        f.write(cmyk[:at] + cmyk[at + 16 :])
    with open(path("ycck.jpg"), "wb") as f:
        f.write(cmyk[: at + 15] + b"\2" + cmyk[at + 16 :])

    im.save(path("rgb.png"))
    im.convert("L").save(path("gray.png"))
    im.convert("1").save(path("bits.png"))
    Image.merge("LA", [im.convert("L"), alpha]).save(path("grayalpha.png"))
    rgba = im.copy()
    rgba.putalpha(alpha)
    rgba.save(path("alpha.png"))
    im.quantize(16).save(path("palette.png"))
    im.quantize(16).save(path("clearpalette.png"), transparency=3)
    im.save(path("keyed.png"), transparency=tuple(im.getpixel((5, 5))))
    deep = (np.asarray(im).astype(np.uint16) << 8) + 77
    png("deep.png", 2, 16, [r.astype(">u2").tobytes() for r in deep])
    deepalpha = np.concatenate([deep, (np.asarray(alpha).astype(np.uint16) << 8)[..., None]], -1)
    png("deepalpha.png", 6, 16, [r.astype(">u2").tobytes() for r in deepalpha])
    ramp = np.arange(WIDTH * HEIGHT, dtype=np.uint16).reshape(HEIGHT, WIDTH)
    png("deepgray.png", 0, 16, [r.astype(">u2").tobytes() for r in ramp])
    picture(60, 7).save(path("wide.png"))
    picture(9, 40).save(path("tall.png"))

    for name in sorted(os.listdir(HERE)):
        base, dot, rest = name.partition(".")
        if rest not in ("jpg", "png"):
            continue
        rgb = Image.open(path(name)).convert("RGB")
        rgb.info.clear()  # Else a transparent color would be saved with it.
        rgb.save(path(name + ".rgb.png"), optimize=True)
        if name in ("rgb.png", "wide.png", "tall.png"):
            for size in (8, 16, 29, 50):
                width, height = rgb.size
                if width <= height:
                    new = (size, int(size * height / width))
                else:
                    new = (int(size * width / height), size)
                left, top = int(round((new[0] - size) / 2.0)), int(round((new[1] - size) / 2.0))
                square = rgb.resize(new, Image.Resampling.BILINEAR).crop((left, top, left + size, top + size))
                square.save(path(f"{name}.{size}.png"), optimize=True)
                if size in (16, 50):  # Columns first, as Pillow up to 12 scales.
                    columns = rgb.resize((new[0], height), Image.Resampling.BICUBIC)
                    square = columns.resize(new, Image.Resampling.BICUBIC).crop((left, top, left + size, top + size))
                    square.save(path(f"{name}.{size}.bicubic.png"), optimize=True)


main()
