"""Looks at the notebooks' saved outputs in a headless Chromium, offline, each notebook as one document.

Arguments: Chromium's path, and the notebooks. Each notebook writes one line of JSON: {"notebook", "problems"}. An output may not be wider
than its window at 930 and 1366 pixels, and no document at 390, where wide tables scroll in their own box; axe finds nothing in them.
"""
import html
import json
import sys

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

# What JupyterLab gives outputs: a font, room for prompts, pictures no wider than the window, and a box that scrolls sideways.
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>%s</title>
<style>body{font:14px/1.5 sans-serif;margin:8px}.output{margin-left:64px;overflow-x:auto}pre{white-space:pre-wrap}
img{height:auto;max-width:100%%}</style>
<main><h1>%s</h1>%s</main></html>"""


def document(path):
    boxes = []
    with open(path, encoding="utf-8") as f:
        cells = json.load(f)["cells"]
    for cell in cells:
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            if "text/html" in data:
                boxes.append("".join(data["text/html"]))
            elif "image/png" in data:
                boxes.append('<img alt="picture" src="data:image/png;base64,%s">' % "".join(data["image/png"]))
            elif "text" in output:
                boxes.append("<pre>%s</pre>" % html.escape("".join(output["text"])))
    return PAGE % (path, path, "".join(f'<div class="output">{box}</div>' for box in boxes))


def problems(page, text):
    page.set_content(text, wait_until="domcontentloaded")
    for width in (1366, 930, 390):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_timeout(50)
        over = page.evaluate("() => document.documentElement.scrollWidth - innerWidth")
        if over > 0:
            yield f"at {width} pixels the document is {over} too wide"
        if width > 390:
            wide = page.evaluate("""() => [...document.querySelectorAll(".output")].filter((e) => e.scrollWidth > e.clientWidth + 1)
                .map((e) => e.scrollWidth - e.clientWidth + " pixels: " + e.innerText.slice(0, 60))""")
            yield from (f"at {width} pixels an output is too wide by {w}" for w in wide)
    page.set_viewport_size({"width": 1366, "height": 900})
    for v in Axe().run(page).response["violations"]:
        node = v["nodes"][0]
        yield f"axe, {v['impact']}, {len(v['nodes'])} times: {v['help']}: {node['html'][:160]} {node['failureSummary'][-200:]}"


with sync_playwright() as p:
    browser = p.chromium.launch(executable_path=sys.argv[1], args=["--no-sandbox"])
    page = browser.new_page(reduced_motion="reduce")
    page.route("**", lambda route: route.abort() if route.request.url.startswith("http") else route.continue_())
    for path in sys.argv[2:]:
        print(json.dumps({"notebook": path, "problems": list(problems(page, document(path)))}), flush=True)
    browser.close()
