package durable

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"
)

// magics are the beginnings of files that are found in place of others.
var magics = []struct{ begins, what string }{
	{"version https://git-lfs", "a Git LFS pointer, a text of three lines: get the file itself with git lfs pull"},
	{"<!doctype", "a page of HTML, not a file: the download failed"},
	{"<html", "a page of HTML, not a file: the download failed"},
	{"<?xml", "a text of XML: the download may have failed"},
	{"\xff\xd8\xff", "a JPEG image"},
	{"\x89png", "a PNG image"},
	{"gif8", "a GIF image"},
	{"bm", "a BMP image"},
	{"ii*\x00", "a TIFF image"},
	{"mm\x00*", "a TIFF image"},
	{"\x93numpy", "a NumPy array (.npy)"},
	{"\x89hdf", "an HDF5 file"},
	{"\x1f\x8b", "a file packed by gzip: unpack it"},
	{"pk\x03\x04", "a zip archive"},
	{"%pdf", "a PDF file"},
	{"rar!", "a RAR archive: unpack it"},
	{"7z\xbc\xaf", "a 7z archive: unpack it"},
}

// ONNX is what [Looks] says of an ONNX file.
const ONNX = "the network of an ONNX file"

// Looks says what a file is by its beginning, for an error about one of another kind: a Git LFS pointer, a page, an
// image, an archive, a text, an empty file; or "".
func Looks(data []byte) string {
	if len(data) == 0 {
		return "an empty file"
	}
	begins := bytes.TrimLeft(data[:min(len(data), 512)], "\ufeff \t\r\n")
	lower := slices.Clone(begins) // bytes.ToLower would take bytes for runes.
	for i, b := range lower {
		if 'A' <= b && b <= 'Z' {
			lower[i] = b + 'a' - 'A'
		}
	}
	switch {
	case len(data) > 12 && string(data[:4]) == "RIFF" && string(data[8:12]) == "WEBP":
		return "a WebP image"
	case len(data) > 12 && string(data[4:8]) == "ftyp":
		return "an AVIF or HEIC image, or a film"
	case len(data) > 2 && data[0] == 0x80 && 2 <= data[1] && data[1] <= 5:
		return "a pickle of Python"
	case len(data) > 2 && data[0] == 8 && data[1] < 32 && data[2] == 0x12: // The version of its form, then its producer.
		return ONNX
	}
	for _, m := range magics {
		if bytes.HasPrefix(lower, []byte(m.begins)) && (m.begins != "bm" || len(data) > 26 && data[15] == 0) {
			return m.what
		}
	}
	for _, b := range begins {
		if b < 0x20 && b != '\n' && b != '\r' && b != '\t' || b == 0x7f {
			return ""
		}
	}
	if bytes.HasPrefix(begins, []byte("{")) { // And no control character: a safetensors file may begin with this byte.
		return "a text of JSON"
	}
	if len(begins) > 8 && utf8.Valid(begins[:len(begins)-min(len(begins)-1, 3)]) {
		return "a text"
	}
	return ""
}

// Text returns an error about what was got in place of a text that is read: a Git LFS pointer, a page, a packed file.
func Text(data []byte) error {
	if what := Looks(data); strings.Contains(what, ": ") { // Then it says what to do.
		return errors.New("not the file itself, but " + what)
	}
	return nil
}
