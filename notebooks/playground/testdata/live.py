"""Looks at a cell that shows the page: run, reloaded, with another kernel, not trusted, and exported as HTML. It types
JupyterLab's shortcuts in the page.

Arguments: JupyterLab's address with its token, Chromium's path, a notebook below the server's root, and the folder of that
notebook. Writes a line of JSON to standard output: what the cell shows each time, "live" or "still", and the pictures in
it. Asserts nothing: the Go test does.
"""
import json
import os
import re
import sys
import time
import urllib.parse
import urllib.request

from playwright.sync_api import sync_playwright

url, chromium, notebook, folder = sys.argv[1:5]
base, token = re.match(r"(http://[^/]+)/.*[?&]token=(\w+)", url).groups()
found, outside, errors = {}, [], []


def until(condition, seconds, what):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if (value := condition()):
            return value
        time.sleep(0.1)
    raise TimeoutError(f"no {what} in {seconds} s")


def ask(path, method="GET"):
    request = urllib.request.Request(f"{base}/{path}?token={token}", method=method)
    return urllib.request.urlopen(request).read()


def watched(browser, allowed):
    page = browser.new_page(viewport={"width": 1300, "height": 1200})
    page.on("request", lambda r: None if r.url.startswith(allowed) else outside.append(r.url))
    page.on("pageerror", lambda e: errors.append(str(e)))
    return page


def open_notebook(page, path):
    page.goto(f"{base}/doc/tree/{urllib.parse.quote(path)}?token={token}")
    page.wait_for_selector(".jp-Notebook:visible", timeout=60000)


def shown(page, seconds=60):
    """What the cell shows, once it is decided; without scripts that is never."""
    cell = page.locator(".dmlx-live").first
    try:
        until(lambda: cell.count() and cell.get_attribute("data-state"), seconds, "decision")
    except TimeoutError:
        pass
    state = cell.count() and cell.get_attribute("data-state") or "still"
    frames = [f for f in page.frames if "dmlx.html" in f.url]

    def fits():  # The page tells its height, and the frame follows.
        return bool(frames) and frames[0].evaluate("document.documentElement.scrollHeight <= innerHeight + 1")
    try:
        until(lambda: not frames or fits(), 10, "room for the page")
    except TimeoutError:
        pass
    return {
        "state": state,
        "frames": page.locator("iframe").count(),
        "pictures": page.locator(".jp-RenderedImage img:visible").count(),
        "ready": bool(frames) and frames[0].evaluate("document.body.dataset.ready || ''") == "yes",
        "told": page.get_by_text("run this cell, or trust the notebook").locator("visible=true").count(),
        "fits": fits(),
    }


def far(page):
    """The controls that are not in view together with a picture, in windows of some sizes."""
    out = []
    for width, height in ((390, 844), (880, 768), (930, 768), (1366, 768)):
        page.set_viewport_size({"width": width, "height": height})
        time.sleep(2)
        room = page.locator(".jp-WindowedPanel-outer:visible").first.bounding_box()["height"]
        out += [f"{width}: {name}" for name in [f for f in page.frames if "dmlx.html" in f.url][0].evaluate("""(room) => {
            const box = (e) => e.getBoundingClientRect(), seen = (e) => box(e).top >= -1 && box(e).bottom <= innerHeight + 1;
            for (const folded of document.querySelectorAll("#bench .formulas")) folded.open = true;
            return [...document.querySelectorAll("#bench .side select, #bench .side input:is([type=range], .formula *), #bench .cards select")].filter((c) => {
                if (!c.checkVisibility()) return false;
                c.scrollIntoView({block: "end", behavior: "instant"});
                return !seen(c) || ![...document.querySelectorAll("#bench .cards canvas")].some((m) =>
                    seen(m) && Math.max(box(c).bottom, box(m).bottom) - Math.min(box(c).top, box(m).top) <= room);
            }).map((c) => c.name);
        }""", room)]
    return out


with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
    page = watched(browser, (base, "ws" + base[4:], "data:", "blob:"))
    open_notebook(page, notebook)
    session = until(lambda: [s for s in json.loads(ask("api/sessions")) if s["path"] == notebook and s["kernel"] and s["kernel"]["connections"]],
                    60, "kernel")[0]
    time.sleep(1)  # JupyterLab asks for a kernel if a cell is run before it knows of that one.
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.click('[data-command="runmenu:run-all"]')
    page.wait_for_selector(".jp-RenderedImage img", state="attached", timeout=240000)
    found["run"] = shown(page)
    # JupyterLab may draw an output again when its cell has ended.
    until(lambda: "*" not in "".join(page.locator(".jp-InputPrompt").all_inner_texts()), 60, "end of the cells")
    time.sleep(2)
    shown(page)
    page.locator("button", has_text="Show the picture").dispatch_event("click")
    time.sleep(1)
    found["picture"] = shown(page)
    page.locator("button", has_text="Show the live version").dispatch_event("click")
    frame = [f for f in page.frames if "dmlx.html" in f.url][0]
    frame.locator("#bench select").first.focus()
    page.keyboard.press("Control+Shift+c")
    page.wait_for_selector(".jp-ModalCommandPalette:visible", timeout=30000)
    page.keyboard.press("Escape")
    frame.locator("#bench select").first.focus()
    page.keyboard.press("Control+s")
    until(lambda: "application/javascript" in open(os.path.join(folder, os.path.basename(notebook))).read(), 30, "saved output")
    page.reload()
    page.wait_for_selector(".jp-RenderedImage img", state="attached", timeout=60000)
    found["reloaded"] = shown(page)
    ask(f"api/kernels/{session['kernel']['id']}/restart", "POST")
    found["restarted"] = shown(page)
    found["far"] = far(page)
    page.close()

    with open(os.path.join(folder, os.path.basename(notebook))) as f:
        saved = json.load(f)
    for cell in saved["cells"]:
        cell["source"] = ["// Somebody else's.\n"]
    with open(os.path.join(folder, "stranger.ipynb"), "w") as f:
        json.dump(saved, f)
    page = watched(browser, (base, "ws" + base[4:], "data:", "blob:"))
    open_notebook(page, os.path.join(os.path.dirname(notebook), "stranger.ipynb"))
    page.wait_for_selector(".jp-RenderedImage img", state="attached", timeout=60000)
    found["stranger"] = shown(page, 8)
    page.close()

    exported = os.path.join(folder, "exported.html")
    with open(exported, "wb") as f:
        f.write(ask("nbconvert/html/" + urllib.parse.quote(notebook)))
    page = watched(browser, ("file:", "data:", "blob:", "http"))  # nbconvert asks for MathJax.
    page.goto("file://" + exported)
    found["exported"] = shown(page)

    # A guess hides the results above it until it is made, by the pointer and by buttons, or skipped.
    guess = os.path.join(folder, "guess.html")
    with open(guess, "wb") as f:
        f.write(ask("nbconvert/html/" + urllib.parse.quote(os.path.dirname(notebook) + "/guess.ipynb")))
    for end in ("Show what is so", "Skip"):
        page.goto("about:blank")
        page.goto("file://" + guess)
        frame = until(lambda: [f for f in page.frames if "view=guess" in f.url], 30, "frame")[0]
        rows, answer = frame.locator(".guess li"), page.get_by_text("What the paper says of Table 2")
        rows.first.wait_for()
        until(lambda: not answer.is_visible(), 10, "hidden answer")
        before = frame.locator(".guess li > span:first-child").all_inner_texts()
        rows.nth(0).get_by_role("button", name="later").click()
        start, to = rows.nth(0).bounding_box(), rows.nth(3).bounding_box()
        page.mouse.move(start["x"] + 60, start["y"] + 10)
        page.mouse.down()
        page.mouse.move(to["x"] + 60, to["y"] + to["height"] - 3, steps=6)
        page.mouse.up()
        after = frame.locator(".guess li > span:first-child").all_inner_texts()
        moved = [before.index(name) for name in after]
        frame.get_by_role("button", name=end).click()
        until(answer.is_visible, 10, "answer")
        said = frame.get_by_text("Of your pairs").all_inner_texts()
        found.setdefault("guesses", []).append({"moved": moved, "said": len(said), "frame": frame.frame_element().is_visible()})
    browser.close()
print(json.dumps(dict(found, outside=outside, errors=errors)))
