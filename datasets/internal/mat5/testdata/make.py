"""Writes scipy.mat and scipy-compressed.mat: python make.py, with scipy 1.17."""

import os

import numpy as np
import scipy.io
import scipy.sparse

annotations = np.zeros((1, 2), dtype=[("fname", object), ("class", object)])
annotations[0, 0] = ("00001.jpg", np.array([[1]], np.uint8))
annotations[0, 1] = ("ab", np.array([[196]], np.uint8))
class_names = np.empty((1, 2), object)
class_names[0, :] = ["AM General Hummer SUV 2000", "Škoda"]
kinds = np.empty((1, 11), object)
for i, kind in enumerate("int8 uint8 int16 uint16 int32 uint32 int64 uint64 float32 float64 bool".split()):
    kinds[0, i] = np.array([[0, 1]], kind)
variables = {
    "annotations": annotations,
    "class_names": class_names,
    "v": np.array([[1.5, -2, np.inf]]),
    "kinds": kinds,
    "matrix": np.array([[1, 2, 3], [4, 5, 6]], np.int16),
    "sparse": scipy.sparse.eye(3).tocsc(),
}
here = os.path.dirname(os.path.abspath(__file__))
for name, compressed in [("scipy.mat", False), ("scipy-compressed.mat", True)]:
    scipy.io.savemat(os.path.join(here, name), variables, do_compression=compressed)
