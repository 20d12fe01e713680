"""Runs cells in a headless Chromium, as a person would, and tells what it saw.

Arguments: JupyterLab's address with its token, which opens the contents page; the folder that it shows, with cells.ipynb,
soon.ipynb and the notebooks; the page to open from the contents; the folder for screenshots or "", and Chromium's path.
Writes one line of JSON to standard output. Asserts nothing: the Go test does.
"""
import json
import os
import sys
import time
import urllib.request

from playwright.sync_api import TimeoutError as Late, sync_playwright

url, folder, first, shots, chromium = sys.argv[1:6]
base, token = url.split("/lab/tree/")[0], url.split("token=")[1]
patience = 180  # Seconds: the machine may be busy.
path, names = "", []  # The notebook that is open, and the ids of its code cells.
seen = {"errors": []}


def until(condition, what):
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        if (value := condition()):
            return value
        time.sleep(0.05)
    raise TimeoutError(f"no {what} in {patience} s; the cells: {states()}")


def connected():
    """JupyterLab asks for a kernel if a cell is run before it knows of one."""
    sessions = json.load(urllib.request.urlopen(f"{base}/api/sessions?token={token}"))
    return any(s["kernel"] and s["kernel"]["connections"] and s["kernel"]["execution_state"] == "idle"
               for s in sessions if s["path"] == path)


def cells():
    """The cells in the notebook's file, which may be in the middle of being written."""
    def whole():
        try:
            return json.load(open(os.path.join(folder, path)))["cells"]
        except ValueError:
            return None

    return until(whole, "whole file")


with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
    page = browser.new_page(viewport={"width": 1366, "height": 5000})
    page.set_default_timeout(patience * 1000)
    page.on("pageerror", lambda e: seen["errors"].append(str(e)))

    def states():
        """The prompt and the output's text of each code cell."""
        found = page.evaluate("""() => [...document.querySelectorAll('.jp-CodeCell')].map(c => ({
            prompt: c.querySelector('.jp-InputPrompt').textContent, output: c.querySelector('.jp-OutputArea').innerText}))""")
        return dict(zip(names, found))

    def opened(notebook):
        """Waits for a notebook that is being opened, and its kernel."""
        global path, names
        path = notebook
        names = [cell["id"] for cell in cells() if cell["cell_type"] == "code"]
        until(lambda: page.locator(".jp-CodeCell").count() == len(names), f"cells of {notebook}")
        until(connected, f"kernel of {notebook}")

    def output(name):
        return states()[name]["output"]

    def menu(*labels):
        for label, kind in zip(labels, ("MenuBar", "Menu")):
            page.click(f'.lm-{kind}-itemLabel:text-is("{label}")')

    def cell(name):
        return page.locator(".jp-CodeCell").nth(names.index(name))

    def start(name):
        cell(name).locator(".jp-InputPrompt").click()
        page.keyboard.press("Control+Enter")

    def idle():
        until(lambda: not any("*" in s["prompt"] for s in states().values()), "end of the cells")

    def run(name):
        before = states()[name]["prompt"]
        start(name)
        until(lambda: states()[name]["prompt"] not in (before, "[*]:") and not cell(name).locator(".dmlx-wait").count(),
              f"end of {name}")
        return output(name)

    def shot(name):
        if shots:
            page.screenshot(path=os.path.join(shots, name + ".png"))

    def saved():
        """The outputs' texts in the file after it is saved."""
        file = os.path.join(folder, path)
        stamp = os.stat(file).st_mtime_ns
        page.keyboard.press("Control+s")
        until(lambda: os.stat(file).st_mtime_ns != stamp, "saved file")
        return cells()

    # The first cell of a notebook that is run before its kernel has started waits for it.
    names, asked = ["first", "second"], []
    page.route("**/api/sessions?*",
               lambda route: asked.append(route) if route.request.method == "POST" else route.continue_())
    page.goto(f"{base}/doc/workspaces/soon/tree/soon.ipynb?token={token}")
    page.locator(".jp-CodeCell .jp-InputPrompt").first.click()
    page.keyboard.press("Control+Enter")
    seen["early"] = until(lambda: (text := output("first")) and asked and text, "line of a cell that waits for its kernel")
    for route in asked:
        route.continue_()
    page.unroute_all()
    seen["soon"] = until(lambda: "*" not in (state := states()["first"])["prompt"] and ":" not in state["output"]
                         and state["output"], "output of the first cell")
    seen["kernels"] = len(json.load(urllib.request.urlopen(f"{base}/api/kernels?token={token}")))

    # From the contents page to a page, which runs to its end.
    # In a workspace of its own, since JupyterLab opens again what was last open in the default one.
    page.goto(url.replace("/lab/tree/", "/lab/workspaces/test/tree/") + "&reset")
    page.locator(f'.jp-Notebook a[href*="{first}.ipynb"]').first.wait_for()
    seen["contents"] = page.locator(".jp-Toolbar-kernelName").first.inner_text()
    page.locator(f'.jp-Notebook a[href*="{first}.ipynb"]').first.click()
    opened(f"notebooks/{first}.ipynb")
    seen["setup"] = until(lambda: page.locator(".dmlx-setup").inner_text(), "state of the set-up")
    menu("Run", "Run All Cells")
    until(lambda: any("*" in s["prompt"] for s in states().values()), "start of the cells")
    idle()
    shot("page")
    seen["alts"] = page.evaluate("[...document.querySelectorAll('.jp-RenderedImage img')].map(i => i.alt)")
    seen["page"] = {c["id"]: c["outputs"] for c in saved() if c["cell_type"] == "code"}
    seen["collapsed"] = page.locator(".jp-Placeholder .jp-InputPrompt").all_inner_texts()

    # A page that is not trusted, so that its outputs are cleaned: the cells of an answer unfold by the keyboard, with
    # their seeds at their places, and nothing is wider than the window.
    page.goto(f"{base}/doc/tree/notebooks/table3.ipynb?token={token}")
    answers = page.locator(".jp-RenderedHTML:has(summary:text-is('20 cells'))").first
    answers.locator("summary:text-is('20 cells')").nth(1).focus()
    page.keyboard.press("Enter")
    seen["answers"] = {"wider": []}
    for width in (1366, 930, 390):
        page.set_viewport_size({"width": width, "height": 5000})
        page.wait_for_timeout(500)
        shot(f"answers-{width}")
        seen["answers"]["wider"].append(answers.evaluate("""e => {
            const out = e.closest(".jp-OutputArea-output"), right = Math.max(...[...e.querySelectorAll("td, div, span")].map(n => n.getBoundingClientRect().right));
            return Math.max(out.scrollWidth - out.clientWidth, Math.round(right - innerWidth));
        }"""))
    page.set_viewport_size({"width": 1366, "height": 5000})
    seen["answers"] |= answers.evaluate("""e => {
        const rows = [...e.querySelectorAll("details[open] tr")], chip = e.querySelector('span[style*="background"]');
        const marks = [...rows[0].querySelectorAll("div span")].map(n => n.getBoundingClientRect().left);
        return {rows: rows.length, marks: new Set(marks).size, runs: rows[0].title, color: getComputedStyle(chip).color};
    }""")

    page.goto(f"{base}/doc/tree/cells.ipynb?token={token}")
    opened("cells.ipynb")
    seen["lineNumbers"] = page.locator(".cm-lineNumbers:visible").count()

    # Run All, stopped in its second cell.
    menu("Run", "Run All Cells")
    until(lambda: "epoch 3" in output("train"), "progress")
    seen["running"] = {name: s["output"] for name, s in states().items()}
    shot("running")
    menu("Kernel", "Interrupt Kernel")
    idle()
    seen["stopped"] = {name: s["output"] for name, s in states().items()}
    seen["stoppedPrompts"] = {name: s["prompt"] for name, s in states().items()}
    shot("stopped")
    seen["saved"] = {c["id"]: json.dumps(c["outputs"]) for c in saved() if c["cell_type"] == "code"}

    # Run again, it goes on to its end.
    open(os.path.join(folder, "enough"), "w").close()
    seen["again"] = run("train")
    seen["after"] = run("after")

    # A cell that shows no result says that it runs, and Stop ends it although its program does not know of it.
    start("waits")
    seen["waits"] = until(lambda: "a warning" in (text := output("waits")) and "running: " in text and text, "line of a cell that runs")
    menu("Kernel", "Interrupt Kernel")
    idle()
    seen["ended"] = output("waits")

    # Its kernel ends while it runs. Cells that are run then start another.
    start("waits")
    until(lambda: "a warning" in output("waits"), "warning")
    menu("Kernel", "Shut Down Kernel")
    seen["gone"] = until(lambda: "*" not in (state := states()["waits"])["prompt"] and state["output"], "end of the cell")
    menu("Run", "Run All Above Selected Cell")
    until(lambda: states()["after"]["prompt"] == "[3]:", "end of the cells above")
    seen["anew"] = [states()[name]["prompt"] for name in ("imports", "train", "after")]
    for name in ("typo", "panic", "split", "nan", "exit"):
        seen[name] = run(name)
    seen["dimmed"] = sorted(page.evaluate("""() => [...document.querySelectorAll('.jp-OutputArea-child')].filter(c =>
        getComputedStyle(c).opacity < 0.5).map(c => c.innerText.trim())"""))
    shot("errors")

    # gopls may still be reading the module, and then completes nothing.
    editor = cell("empty").locator(".cm-content")
    editor.click()
    page.keyboard.type("%%\nnb.NewProg")

    def completed():
        page.keyboard.press("Tab")
        try:
            page.wait_for_selector(".jp-Completer", state="visible", timeout=20_000)
        except Late:
            return False
        seen["completed"] = page.locator(".jp-Completer").inner_text()
        page.keyboard.press("Enter")
        return True

    until(completed, "completion")
    until(lambda: "nb.NewProgress" in editor.inner_text(), "completed name")
    page.keyboard.press("Shift+Tab")
    page.wait_for_selector(".jp-Tooltip")
    seen["hover"] = page.locator(".jp-Tooltip").inner_text()
    shot("hover")

    # A cell uses a function whose cell no longer compiles.
    def write(name, text):
        cell(name).locator(".cm-content").click()
        page.keyboard.press("Control+a")
        page.keyboard.insert_text(text)

    write("empty", "func answer() int { return 42 }")
    run("empty")
    write("empty", "func answer() int { return }")
    run("empty")
    write("after", "%%\nfmt.Println(answer())")
    seen["stale"] = run("after")
    write("after", '%%\nfmt.Println("answer") // answer, `answer` and "answer"')
    seen["quoted"] = run("after")
    write("after", "func answer() int { return 43 }")
    run("after")
    write("after", "%%\nfmt.Println(answer())")
    seen["again43"] = run("after")

    # Cells that wait for one that is deleted while it runs are run after it.
    write("empty", "%%\ntime.Sleep(5 * time.Second)")
    start("empty")
    before = states()["after"]["prompt"]
    start("after")
    cell("empty").locator(".jp-InputPrompt").click()
    page.keyboard.press("d")
    page.keyboard.press("d")
    names.remove("empty")
    until(lambda: states()["after"]["prompt"] not in ("[*]:", before), "run of a cell that waited for a deleted one")

    # On a phone the page has the room that the list of files takes elsewhere.
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.goto(f"{base}/lab/workspaces/phone/tree/{path}?token={token}")
    until(lambda: page.locator(".jp-CodeCell").count() and not page.locator(".jp-DirListing").is_visible(), "room on a phone")
    browser.close()
print(json.dumps(seen))
