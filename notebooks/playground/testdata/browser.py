"""Uses the playground's panels in a headless Chromium, as a person would, and tells what it saw.

Arguments: JupyterLab's address with its token, the run store (which tells this test's programs from others), the folder
for screenshots or "", Chromium's path, and notebooks as name=path below the server's root. Each scenario writes one line
of JSON to standard output. Asserts nothing about the rules: the Go test does.
"""
import json
import os
import re
import sys
import time
import urllib.parse
import urllib.request

from playwright.sync_api import sync_playwright

url, store, shots, chromium = sys.argv[1:5]
notebooks = dict(arg.split("=", 1) for arg in sys.argv[5:])
base, token = re.match(r"(http://[^/]+)/.*[?&]token=(\w+)", url).groups()


def programs():
    """Cells' programs that run for this test's JupyterLab."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            program = os.path.basename(os.readlink(f"/proc/{pid}/exe"))
            environment = open(f"/proc/{pid}/environ", "rb").read()
        except OSError:
            continue
        if program.startswith("gonb_") and f"DMLX_STORE={store}".encode() in environment.split(b"\0"):
            found.append(int(pid))
    return found


def until(condition, seconds, what):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if (value := condition()):
            return value
        time.sleep(0.02)
    raise TimeoutError(f"no {what} in {seconds} s")


class Notebook:
    def __init__(self, browser, name):
        self.name, self.outside, self.errors = name, [], []
        self.page = page = browser.new_page(viewport={"width": 1300, "height": 1000})
        page.on("request", lambda r: self.outside.append(r.url) if not r.url.startswith((base, "ws" + base[4:], "data:", "blob:")) else None)
        page.on("pageerror", lambda e: self.errors.append(str(e)))
        page.goto(f"{base}/doc/tree/{urllib.parse.quote(notebooks[name])}?token={token}")
        page.wait_for_selector(".jp-Notebook:visible", timeout=60000)
        until(self.connected, 60, "kernel")
        time.sleep(1)  # JupyterLab asks for a kernel if a cell is run before it knows of that one.

    def connected(self):
        sessions = json.load(urllib.request.urlopen(f"{base}/api/sessions?token={token}"))
        return any(s["path"] == notebooks[self.name] and s["kernel"] and s["kernel"]["connections"] for s in sessions)

    def run_all(self):
        self.page.get_by_role("menuitem", name="Run", exact=True).click()
        self.page.click('[data-command="runmenu:run-all"]')

    def run(self, first=0, last=None):
        """Runs cells one by one."""
        cells = self.page.locator(".jp-CodeCell")
        for i in range(first, last or cells.count()):
            cells.nth(i).locator(".jp-InputPrompt").click()
            self.page.keyboard.press("Control+Enter")

    def stop(self):
        """Presses Stop; the seconds until the cell has ended and until no program is left."""
        start = time.monotonic()
        self.page.click("[title*=Interrupt]")
        self.page.wait_for_selector(".dmlx-panel", state="detached", timeout=20000)
        until(lambda: not programs(), 20, "end of the program")
        return time.monotonic() - start

    def idle(self, seconds=120):
        def done():
            # Hidden inputs have none. A cell that is scrolled out of view has no inner text.
            prompts = self.page.locator(".jp-CodeCell .jp-InputPrompt:not(.jp-Placeholder-prompt)").all_text_contents()
            return prompts and not any("*" in p or p.strip() in ("", "[ ]:") for p in prompts)
        until(done, seconds, "end of the cells")

    def shot(self, step):
        if shots:
            self.page.screenshot(path=os.path.join(shots, f"{self.name}_{step}.png"))

    def text(self, selector):
        return self.page.locator(selector).inner_text()

    def stills(self):
        """How many pictures that stay are there and decoded."""
        return self.page.evaluate("""() => [...document.querySelectorAll(".jp-RenderedImage img")].filter(i => i.complete && i.naturalWidth > 100).length""")

    def save(self):
        with self.page.expect_response(lambda r: r.request.method == "PUT" and "/api/contents/" in r.url, timeout=60000):
            self.page.keyboard.press("Control+s")

    def words(self):
        """The saved pictures in words."""
        self.save()
        content = json.load(urllib.request.urlopen(f"{base}/api/contents/{urllib.parse.quote(notebooks[self.name])}?token={token}"))["content"]
        return [o["data"]["text/plain"] for c in content["cells"] for o in c.get("outputs", []) if "image/png" in o.get("data", {})]

    def frame(self):
        """The page in the panel."""
        handle = self.page.wait_for_selector(".dmlx-panel[data-state=ready] iframe", timeout=240000)  # The first cell compiles.
        return handle.content_frame()

    def tell(self, **found):
        print(json.dumps(dict(found, scenario=self.name, outside=self.outside, errors=self.errors)), flush=True)


def settled(frame):
    """Waits until what was changed is drawn."""
    for _ in range(2):
        frame.evaluate("() => Bench.engine.call('describe')")
        time.sleep(0.1)


def pictures(frame):
    return frame.evaluate("() => Object.fromEntries(KINDS.map((k) => [k, Bench.a.views[k].svg().replace(/<title>.*?<.title>/, '')]))")


def typed(frame, **formulas):
    """Types formulas into the fields of the first rule, a key at a time; the rule's name then, and what the page says."""
    frame.locator("details.formulas").first.evaluate("e => e.open = true")
    for name, text in formulas.items():
        field = frame.locator(f"input[name={name}]").first
        field.fill("")
        field.press_sequentially(text, delay=20)
    settled(frame)
    return frame.evaluate("() => [Bench.a.name, Bench.a.formulas.faults.triplet.textContent]")


def panel(n):
    """The panel's page, with the rule of the cell and others: its controls, its flow, and what stays after Stop."""
    n.run()
    frame = n.frame()
    running = len(programs())
    settled(frame)
    first, name = pictures(frame), lambda: frame.locator(".side .name input").first.input_value()
    note, choices = name(), frame.locator("select[name=triplet] option").first.evaluate("e => [...e.parentNode.options].map(o => o.value)")
    n.shot("first")
    frame.locator("select[name=triplet]").first.select_option("cir")
    frame.locator("input[name=tau]").first.focus()
    for _ in range(40):  # A key's repeat: an event of the slider each.
        n.page.keyboard.press("ArrowRight")
        time.sleep(0.05)
    settled(frame)
    times = frame.evaluate("() => performance.getEntriesByName('input to frame').map(e => e.duration)")
    moved, tuned = pictures(frame), name()
    n.shot("moved")
    step = lambda: frame.evaluate("() => Bench.a.player.steps")
    play = frame.get_by_role("button", name="Play", exact=True)
    play.click()
    label = frame.locator("button.main").first.inner_text()
    start = time.monotonic()
    until(lambda: step() >= 40, 60, "40 frames")
    seconds = time.monotonic() - start
    frame.get_by_role("button", name="Pause", exact=True).click()
    settled(frame)
    paused = step()
    time.sleep(0.5)
    stays = step() == paused
    frame.get_by_label("Flow", exact=True).get_by_role("button", name="Step", exact=True).click()
    until(lambda: step() == paused + 1, 20, "step")
    n.shot("paused")
    frame.get_by_label("Flow", exact=True).get_by_role("button", name="Reset", exact=True).click()
    until(lambda: step() == 0, 20, "restart")
    stopped = n.stop()
    n.idle()
    n.shot("stopped")
    n.tell(running=running, left=len(programs()), stopped=stopped, times=times, note=note, chosen=tuned, choices=choices, label=label, rate=40 / seconds,
           stays=stays, changed=[k for k in first if first[k] != moved[k]], stills=n.stills(), last=n.text(".dmlx-still") + n.words()[-1],
           controls=n.page.locator(".jp-OutputArea iframe").count(), failed=n.page.locator('[data-mime-type="application/vnd.jupyter.error"]').count())


def own(n):
    """A rule is written, checked, drawn and trained; then its training is stopped."""
    n.run(0, 4)
    frame = n.frame()
    running = len(programs())
    table = n.page.locator("table").first.inner_text()
    triplets = frame.locator("select[name=triplet]").first.evaluate("e => [...e.options].map(o => o.value)")
    note = frame.locator(".side .name input").first.input_value()
    n.shot("panel")
    n.run(4)  # The cells that wait end the panel.
    n.page.locator("table", has_text="cos-orth/lin-ms/cir").last.wait_for(timeout=400000)
    n.idle()
    n.shot("trained")
    n.tell(running=running, left=len(programs()), stopped=0, note=note, table=table, choices=triplets,
           said=n.page.locator("table").last.inner_text(), last=n.words()[-1],
           failed=n.page.locator('[data-mime-type="application/vnd.jupyter.error"]').count())


def learn(n):
    """A layer is trained by a rule beside another: Run All leaves the panel of the last cell, until End is pressed."""
    n.run_all()
    frame = n.frame()
    running = len(programs())
    wrong = typed(frame, positive="1-Sap", negative="San", triplet="max(0, San-Spa+m)", numbers="m=0.5")
    name = typed(frame, triplet="max(0, San-Sap+m)")
    n.shot("typed")
    frame.get_by_role("button", name="Train", exact=True).click()
    start = time.monotonic()
    until(lambda: frame.evaluate("() => Bench.b.learn.at >= 10"), 300, "ten steps of both")
    first = time.monotonic() - start
    n.shot("first")
    frame.get_by_role("button", name="Pause", exact=True).click()
    time.sleep(2)
    said = frame.evaluate("() => Learn.line.textContent")
    n.page.locator(".dmlx-panel > button").click()
    n.page.wait_for_selector(".dmlx-panel", state="detached", timeout=20000)
    n.idle()
    until(lambda: not programs(), 20, "end of the program")
    until(n.stills, 10, "last picture")
    n.shot("ended")
    n.tell(running=running, left=len(programs()), stopped=0, times=[1000 * first], note=wrong[1], chosen=name[0], said=said, last=n.text(".dmlx-still"), stills=n.stills(),
           controls=n.page.locator(".jp-OutputArea iframe").count(), failed=n.page.locator('[data-mime-type="application/vnd.jupyter.error"]').count())


scenarios = {"panel": panel, "own": own, "learn": learn}

with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
    for name in notebooks:
        n = Notebook(browser, name)
        try:
            scenarios[name](n)
        except Exception:
            n.shot("failed")
            raise
        n.page.close()
    browser.close()
