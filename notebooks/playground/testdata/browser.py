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
        """Runs cells one by one, since Run All ends a form when it has run it."""
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
    frame.get_by_role("button", name="Restart", exact=True).click()
    until(lambda: step() == 0, 20, "restart")
    stopped = n.stop()
    n.idle()
    n.shot("stopped")
    n.tell(running=running, left=len(programs()), stopped=stopped, times=times, note=note, chosen=tuned, choices=choices, label=label, rate=40 / seconds,
           stays=stays, changed=[k for k in first if first[k] != moved[k]], stills=n.stills(), last=n.text(".dmlx-still"),
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
    n.page.locator(".dmlx-panel > button").click()
    n.run(4)
    until(lambda: n.page.locator(".dmlx-training img").count(), 120, "chart")
    seen = set()

    def trained():
        seen.update(n.page.locator(".dmlx-training img").evaluate_all("all => all.map(e => e.alt)"))
        return n.page.locator(".jp-RenderedMarkdown", has_text="of the store.").count() >= 3
    until(trained, 400, "end of the training")
    n.idle()
    seen.update(n.words())
    n.shot("trained")
    n.tell(running=running, left=len(programs()), stopped=0, note=note, table=table, choices=triplets, charts=len(seen),
           runs="\n".join(n.page.locator(".jp-RenderedMarkdown", has_text="of the store.").all_inner_texts()), last=max(seen, key=lambda alt: alt.count("R@1")),
           failed=n.page.locator('[data-mime-type="application/vnd.jupyter.error"]').count())


def stop(n):
    """A training is stopped."""
    n.run_all()
    until(lambda: n.page.locator(".dmlx-training img").count(), 120, "chart")
    until(programs, 60, "program")
    running = len(programs())
    until(lambda: "epoch 2 of" in n.page.locator(".dmlx-training img").first.get_attribute("alt"), 200, "second epoch")
    start = time.monotonic()
    n.page.click("[title*=Interrupt]")
    until(lambda: not programs(), 20, "end of the program")
    stopped = time.monotonic() - start
    until(n.stills, 10, "last chart")
    n.shot("stopped")
    n.tell(running=running, left=len(programs()), stopped=stopped, last=n.words()[0])


def map_of_a_run(n):
    """The map of a run's test images is pointed at."""
    n.run_all()
    running = len(until(programs, 60, "program"))
    shown = n.page.locator("[data-map]:visible")
    until(shown.count, 200, "map")
    n.idle()
    shown.first.scroll_into_view_if_needed()
    box, tip = shown.first.bounding_box(), shown.first.locator("[role=status]")

    def pointed():
        for x in range(8, int(box["width"]), 8):  # Along a line in the middle, past which there are points at both ends.
            n.page.mouse.move(box["x"] + x, box["y"] + box["height"] * at)
            if tip.is_visible():
                return tip.inner_text()
    at, found = 0.2, None
    while not found and at < 0.9:
        found, at = pointed(), at + 0.03
    n.shot("pointed")
    pictures = tip.locator("div").evaluate_all("all => all.filter(e => e.style.backgroundImage.startsWith('url(\"data:')).length")
    n.page.mouse.move(5, 5)
    n.tell(running=running, left=len(programs()), stopped=0, note=found or "", stills=pictures, kept=not tip.is_visible(),
           failed=n.page.locator('[data-mime-type="application/vnd.jupyter.error"]').count())


def tryit(n):
    """A rule is tried: from the press of Train to its first number, then the cell is run again, and its page closed."""
    n.run()
    frame = n.frame()
    running = len(programs())
    frame.locator("select[name=pair]").select_option("con")
    for row in ("cos/con/con", "loss ms", "loss triplet"):  # The first was ticked.
        frame.locator(".rows").get_by_text(row, exact=True).click()
    counted = frame.locator(".rows summary").inner_text()
    frame.locator("button[name=train]").click()
    start = time.monotonic()
    until(lambda: frame.evaluate("() => Try.curves.series.some((s) => s.width === 3)"), 300, "first number")
    first = time.monotonic() - start
    n.shot("first")
    until(lambda: frame.locator(".below table").count(), 600, "leaderboard")
    n.shot("leaderboard")
    thick = lambda: frame.evaluate("() => Try.curves.series.filter((s) => s.width === 3).map((s) => [s.name.split(':')[0], themed(s.color)])")
    until(lambda: len(thick()) == 4, 600, "a curve of each row")
    names, colors = zip(*thick())
    colors = [c for c in colors if c.startswith("#")]
    saved = frame.locator("a[download]").count()
    old = n.page.locator(".dmlx-panel").get_attribute("id")
    n.page.locator(".jp-CodeCell", has=n.page.locator(".dmlx-panel")).locator(".cm-content").click()
    n.page.keyboard.press("Control+Enter")
    until(lambda: n.page.locator(".dmlx-panel[data-state=ready]").evaluate_all("(all, old) => all.some(e => e.id !== old)", old), 300,
          "second execution")
    table = n.frame().locator(".below").inner_text()  # The leaderboard is still there.
    n.page.reload()
    n.page.wait_for_selector(".jp-Notebook:visible", timeout=60000)
    until(lambda: not programs(), 60, "end of the program whose page has gone")
    n.tell(running=running, left=len(programs()), stopped=0, times=[1000 * first], table=table, note=counted, choices=names, charts=len(set(colors)), controls=saved, kept=True,
           failed=n.page.locator('[data-mime-type="application/vnd.jupyter.error"]').count())


scenarios = {"tryit": tryit, "panel": panel, "own": own, "stop": stop, "map": map_of_a_run}

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
