package durable

import (
	"strings"
	"testing"
)

func TestLooks(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]string{
		"": "an empty file",
		"version https://git-lfs.github.com/spec/v1\noid sha256:7\n": "a Git LFS pointer",
		"<!DOCTYPE html><html>":                    "a page of HTML",
		"\ufeff\n <HTML><body>404":                 "a page of HTML",
		"<?xml version=\"1.0\"?>":                  "a text of XML",
		`{"weight_map": {}}`:                       "a text of JSON",
		"RIFF\x24\x00\x00\x00WEBPVP8 ":             "a WebP image",
		"\x00\x00\x00\x1cftypavif\x00":             "an AVIF or HEIC image",
		"\xff\xd8\xff\xe0":                         "a JPEG image",
		"\x89PNG\r\n\x1a\n":                        "a PNG image",
		"GIF89a":                                   "a GIF image",
		"BM" + strings.Repeat("\x00", 30):          "a BMP image",
		"II*\x00\x08\x00\x00\x00":                  "a TIFF image",
		"\x1f\x8b\x08":                             "a file packed by gzip",
		"PK\x03\x04":                               "a zip archive",
		"\x93NUMPY\x01\x00":                        "a NumPy array",
		"Access denied. Log in first.":             "a text",
		"BMW, a text that begins like an image":    "a text",
		"\x80\x02}q\x00.":                          "a pickle of Python",
		"{\x00\x00\x00\x00\x00\x00\x00{}      ":    "",
		"\x08\x0a\x12\x07pytorch":                  ONNX,
		"\x08\x00\x00\x00\x00\x00\x00\x00{}      ": "",
	} {
		if got := Looks([]byte(data)); !strings.HasPrefix(got, want) || (got == "") != (want == "") {
			t.Errorf("%.20q looks like %q, want %q", data, got, want)
		}
	}
}
