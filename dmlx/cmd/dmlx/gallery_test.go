package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// From a folder of images to the nearest of a photograph: two commands, and a page.
func TestGallery(t *testing.T) {
	atWork(t)
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	images := in("photos")
	drawn := []string{"a/0.png", "a/1.png", "b/0.png", "b/1.png"}
	for i, name := range drawn {
		drawImage(t, filepath.Join(images, name), i)
	}
	if err := os.WriteFile(filepath.Join(images, "a", "bad.png"), []byte("no image"), 0o644); err != nil {
		t.Fatal(err)
	}
	network := []string{"--arch", "small", "--weights", "pretrained", "--features", "gap"}
	index := append([]string{"gallery", "index", "--images", images, "--out", in("G")}, network...)
	if v := object(t, index...); v["images"] != 4. || v["skipped"] != 1. {
		t.Errorf("%v", v)
	}
	photo := filepath.Join(images, "b", "0.png")
	v := object(t, "gallery", "query", in("G"), photo, "--k", "3", "--html", in("found.html"))
	found := v["answers"].([]any)[0].(map[string]any)["found"].([]any)
	first := found[0].(map[string]any)
	if len(found) != 3 || first["path"] != photo || first["similarity"].(float64) < 0.99999 {
		t.Errorf("%v", found)
	}
	page, err := os.ReadFile(in("found.html"))
	if err != nil || strings.Count(string(page), "data:image/jpeg;base64,") != 4 ||
		strings.Count(string(page), "<figcaption>") != 3 {
		t.Errorf("%v %s", err, page)
	}
	if v := object(t, "gallery", "export", in("G"), "--out", in("F.fvecs")); v["rows"] != 4. {
		t.Errorf("%v", v)
	}
	text := filepath.Join(images, "a", "bad.png")
	for want, args := range map[string][]string{
		"want the folder":  {"query", in("none"), photo},
		"at least 1":       {"query", in("G"), photo, "--k", "0"},
		"neither a JPEG":   {"query", in("G"), text},
		"ends in .fvecs":   {"export", in("G"), "--out", in("F.txt")},
		"gap or embedding": {"index", "--images", images, "--out", in("H"), "--weights", "pretrained", "--features", "x"},
	} {
		code, _, stderr := invoke(t, append([]string{"gallery"}, args...)...)
		if !failed(code) || !strings.Contains(stderr, want) {
			t.Errorf("%v: %d %s; want %s", args, code, stderr, want)
		}
	}
	// An index may come from somebody else.
	for what, text := range map[string]string{"cut off": "{", "long": "[" + strings.Repeat("{},", 1<<19) + "{}]"} {
		if err := os.WriteFile(filepath.Join(in("G"), galleryFile), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if code, _, stderr := invoke(t, "gallery", "query", in("G"), photo); !failed(code) || len(stderr) > 1000 {
			t.Errorf("%s: %d %s", what, code, stderr)
		}
	}
}
