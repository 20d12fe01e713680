"""Uses the page in a headless Chromium as a person would, offline, and tells what it found.

Arguments: the folder with the page, its single-file form or "", Chromium's path, the golden file, "write" or "" for the golden file, a
folder for screenshots or "", and the group of checks: one, other or timed. Each check writes one line of JSON: {"check", "problem", "note"}. The last line has the timings.
"""
import functools
import http.server
import json
import os
import re
import statistics
import struct
import sys
import threading
import time
import urllib.parse
import xml.etree.ElementTree
import zlib

from playwright.sync_api import sync_playwright

folder, single, chromium, golden_path, write, shots, group = sys.argv[1:8]


sent = []  # Files that were sent whole.


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_request(self, code="-", size="-"):
        if code == 200:
            sent.append(self.path.split("?")[0])

    def log_message(self, *args):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder))
threading.Thread(target=server.serve_forever, daemon=True).start()
base = f"http://127.0.0.1:{server.server_port}/"
outside, errors, notes = [], [], {}


def open_page(browser, address, **options):
    options.setdefault("viewport", {"width": 1366, "height": 900})
    options.setdefault("reduced_motion", "reduce")
    page = browser.new_context(accept_downloads=True, **options).new_page()
    page.on("request", lambda r: outside.append(r.url) if not r.url.startswith((base, "data:", "blob:", "file:")) else None)
    page.on("pageerror", lambda e: errors.append(f"{e} {e.stack}"))
    page.goto(address)
    page.wait_for_selector("body[data-ready]", timeout=30000)
    unfold(page)
    return page


def unfold(page):
    page.evaluate("() => { for (const d of document.querySelectorAll('#bench details')) d.open = true; }")


def until(page, condition, what, timeout=20000):
    try:
        page.wait_for_function(condition, timeout=timeout)
    except Exception:
        raise AssertionError(f"{what}: not within {timeout / 1000:g} s") from None


def settle(page):
    """Waits until no request is under way."""
    page.evaluate("() => Bench.engine.call('describe')")
    page.wait_for_timeout(30)
    page.evaluate("() => Bench.engine.call('describe')")


def press(page, name, key, times, within):
    handle = page.locator(within).get_by_role("slider", name=name, exact=True).first
    handle.scroll_into_view_if_needed()
    handle.focus()
    for _ in range(times):
        page.keyboard.press(key)


def story(page):
    for step in range(1, 9):
        page.locator(f"#step{step}").scroll_into_view_if_needed()
        until(page, f"() => document.querySelector('#step{step} .result').textContent", f"step {step} does not start")
        assert not page.locator(f"#step{step} .challenge.solved").count(), f"step {step} is solved from the start"
    # The first by the pointer, the others by keys and controls.
    page.locator("#step1 figure").scroll_into_view_if_needed()
    box = page.locator("#step1").get_by_role("slider", name="Negative").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    anchor = page.locator("#step1").get_by_role("slider", name="Anchor").bounding_box()
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(anchor["x"] + 10, anchor["y"] + anchor["height"] / 2 + 3, steps=5)
    page.mouse.up()
    press(page, "Positive", "ArrowLeft", 20, "#step2")
    page.locator("#step3 select").select_option("euc")
    page.locator("#step4").get_by_role("button", name="Skip").click()
    page.locator("#step4 input[name=alpha]").fill("5.5")
    press(page, "a gray negative", "ArrowLeft", 7, "#step5")
    press(page, "another gray negative", "ArrowLeft", 2, "#step5")
    page.locator("#step6 input[name=tau]").fill("4.7")
    press(page, "The triplet under sc2", "Shift+ArrowLeft", 5, "#step7")
    press(page, "The triplet under sc2", "Shift+ArrowUp", 3, "#step7")
    page.locator("#step8 select").select_option("cos-orth")
    for step in range(1, 9):
        until(page, f"() => document.querySelector('#step{step} .challenge.solved')",
              f"the challenge of step {step} is not solved: " + page.locator(f"#step{step} .result").inner_text())
    assert page.locator(".dots a.solved").count() == 8
    jumps = page.evaluate("""() => [...views].filter((v) => v.name.startsWith("mask-")).flatMap((v) => {
        const p = v.picture, f = p.frame(v.width, v.height), spots = [];
        p.labelSpot = (...args) => { const spot = Diagram.prototype.labelSpot.apply(p, args); if (spot) spots.push(spot); return spot; };
        v.draw();
        delete p.labelSpot;
        return spots.map(([x, y]) => { const near = [-3, 0, 3].flatMap((dx) => [-3, 0, 3].map((dy) => p.valueAt(f.sx(x + dx), f.sy(y + dy)))); return Math.max(...near) - Math.min(...near); });
    })""")
    assert jumps and max(jumps) < 0.2, f"labels of step 7's contours stand on jumps of {jumps}"


def formulas(page):
    side = page.locator("#bench .side").first
    side.locator("input[name=numbers]").fill("m=0.5")
    typed = side.locator("input[name=triplet]")
    typed.fill("max(0, San-Sap+m)")
    until(page, "() => Bench.a.name.endsWith('/[max(0, San-Sap+m), m=0.5]')", "a typed formula is not drawn")
    typed.fill("max(0, San-Spa)")
    until(page, "() => Bench.a.formulas.faults.triplet.textContent === ' '.repeat(11) + '▲no variable Spa; did you mean Sap? The pictures show the formulas before.'", "a fault is not under its character")
    typed.fill("log(Sap-0.9)")
    until(page, "() => /not finite/.test(Bench.a.problemLine.textContent) && /T is NaN/.test(Bench.a.formulas.remarks.textContent)", "weights that are not finite are not said")
    until(page, "() => [...document.querySelectorAll('#bench .card.stale')].filter((c) => c.offsetParent).length === 4", "the diagram does not show where weights are not finite")
    example = "cos/[1, 1]/[pow(sigmoid(k*(San-Sap)), g), k=4, g=2]"
    side.locator("select[name=example]").select_option(example)
    until(page, f"() => Bench.a.name === {json.dumps(example)} && /^No loss|^These weights/.test(Bench.a.formulas.remarks.textContent)", "an example is not drawn")
    until(page, "() => Bench.a.formulas.inputs.numbers.value === 'k=4, g=2'", "an example is not shown in the fields")
    side.get_by_role("button", name="Undo").click()
    until(page, "() => Bench.a.rule.triplet === '[log(Sap-0.9)]'", "nothing is undone")
    field = side.get_by_role("textbox", name="Name")
    field.fill("cos/lin/cir?tau=4")
    field.press("Enter")
    until(page, "() => Bench.a.name === 'cos/lin/cir?tau=4' && !document.querySelector('#bench .card.stale')", "the rule before is not read again")


def controls(page):
    formulas(page)
    side = page.locator("#bench .side").first
    for name, value, want in [("direction", "euc-orth", "euc-orth/lin/cir?tau=4"), ("pair", "sig-ms", "euc-orth/sig-ms/cir?tau=4"),
                              ("triplet", "cos", "euc-orth/sig-ms/cos?tau=4"), ("mask", "sc1", "euc-orth/sig-ms/cos+sc1?tau=4")]:
        side.locator(f"select[name={name}]").select_option(value)
        until(page, f"() => Bench.a.name === {json.dumps(want)}", f"{name} {value} does not lead to {want}")
    for name, value in [("tau", "2"), ("alpha", "3"), ("beta", "20"), ("lambda", "0.4"), ("epsilon", "0.2")]:
        side.locator(f"input[name={name}]").fill(value)
        until(page, f"() => Bench.a.name.includes('{name}={value}')", f"{name} {value} is not in the rule's name")
    side.locator("input[name=sum]").check()
    until(page, "() => Bench.a.name.includes('sum')", "the sum is not in the rule's name")
    side.locator("input[name=sum]").uncheck()
    side.locator("select[name=alias]").select_option("ours")
    until(page, "() => Bench.a.name.startsWith('cos-orth/lin-ms/cir')", "the alias is not read")
    field = side.get_by_role("textbox", name="Name")
    field.fill("cos/lin/cir?tau=4")
    field.press("Enter")
    until(page, "() => Bench.a.name === 'cos/lin/cir?tau=4'", "a typed name is not read")
    off = page.evaluate("() => [...document.querySelectorAll('#bench .side')][0].querySelectorAll('.dials > .slider[hidden]').length")
    assert off == 4, f"{off} parameters are folded for cos/lin/cir; want 4"
    field.fill("cos/much/cir")
    field.press("Enter")
    until(page, "() => document.querySelector('#bench .side .problem').textContent.includes('much')", "a bad name has no message")
    assert page.locator("#bench .card.stale:visible").count() == 5, "the pictures of the rule before look like those of the bad name"
    field.fill("cos/lin/cir?tau=4")
    field.press("Enter")
    until(page, "() => !document.querySelector('#bench .side .problem').textContent", "the message stays")
    assert not page.locator("#bench .card.stale").count(), "pictures stay dimmed"
    for show in ("push", "weight", "pairPositive", "pairNegative", "pull"):
        page.locator("#bench select[name=show]").select_option(show)
        assert page.evaluate("() => Bench.a.pictures.diagram.values === Bench.a.numbers.diagram[Bench.state.show]"), f"the diagram does not show {show}"
    page.locator("#bench select[name=low]").select_option("-1")
    until(page, "() => Bench.a.pictures.diagram.low === -1 && Bench.a.numbers.diagram.low === -1", "the diagram does not begin at −1")
    page.locator("#bench select[name=low]").select_option("0")
    page.locator("#arrows").uncheck()
    until(page, "() => !Bench.a.pictures.diagram.arrows", "the arrows stay")
    page.locator("#arrows").check()
    until(page, "() => Bench.a.pictures.diagram.arrows", "the arrows do not come back")
    for name, value in [("classes", "6"), ("images", "5"), ("noise", "0.9"), ("seed", "3")]:
        page.locator(f"#bench .batch input[name={name}]").fill(value)
    for dim in ("2", "32", "3"):
        page.locator("#bench select[name=dim]").select_option(dim)
        until(page, f"() => Bench.a.result.dim === {dim} && Bench.a.result.n === 30", f"no batch of 30 in {dim} dimensions")
    # Colors mean the same while a slider moves.
    held = page.evaluate("""async () => {
      const s = document.querySelector('#bench .side input[name=tau]'), before = Bench.a.range;
      for (const v of [1, 8, 16]) { s.value = v; s.dispatchEvent(new Event('input', {bubbles: true})); await new Promise((r) => setTimeout(r, 80)); }
      const moving = Bench.a.range;
      s.dispatchEvent(new Event('change', {bubbles: true}));
      await new Promise((r) => setTimeout(r, 400));
      return [before, moving, Bench.a.range];
    }""")
    assert held[0] == held[1] != held[2], f"the color scale of M before, during and after a move: {held}"


def every_loss(page):
    page.locator("#bench .side").first.get_by_text("Loss", exact=True).click()
    names = page.evaluate("() => Bench.about.losses.map((l) => l.name)")
    assert len(names) == len(set(names)) >= 28, names
    for name in names:
        page.locator("#bench .side select[name=loss]").first.select_option(name)
        until(page, f"() => Bench.a.result.kind === 'loss' && Bench.a.name.split('?')[0] === {json.dumps(name)}", f"{name} is not computed")
        found = page.evaluate("() => ({finite: Bench.a.result.M.every(Number.isFinite), some: Bench.a.result.M.some((x) => x !== 0), "
                              "problem: document.querySelector('#bench .side .problem').textContent})")
        assert found["finite"] and found["some"] and not found["problem"], f"{name}: {found}"
    page.locator("#bench .side select[name=loss]").first.select_option("ms")
    slider = page.locator("#bench .side input[name=beta]:visible").first
    slider.fill("20")
    until(page, "() => Bench.a.name.includes('beta=20')", "a loss's parameter is not read")
    page.locator("#bench .side").first.get_by_text("Rule", exact=True).click()
    until(page, "() => Bench.a.result.kind === 'rule'", "no rule again")


def linked(page):
    page.locator("#workbench").scroll_into_view_if_needed()

    def lit():
        return page.evaluate("() => { const p = Bench.a.pictures, l = p.matrix.lit; return l && [p.diagram.lit === l, p.swarm.lit === l, "
                             "Boolean(p.circle.echo), l.points.length, l.cells.length, l.triplets.length]; }")

    def point(kind, place):
        view = page.locator(f"#bench .cards > .{kind} canvas").first
        view.scroll_into_view_if_needed()
        x, y = page.evaluate(f"() => {{ const v = Bench.a.views.{kind}, p = v.picture, f = p.frame(v.width, v.height), t = Bench.a.result.triplets; "
                             f"const [x, y] = (() => {{ {place} }})(); return [x * v.scale, y * v.scale]; }}")
        box = view.bounding_box()
        page.mouse.move(box["x"] + x, box["y"] + y)
        page.wait_for_timeout(40)
        return lit()

    cell = point("matrix", "return [f.x + (t.positive[0] + 0.5) * f.cell, f.y + (t.anchor[0] + 0.5) * f.cell];")
    assert cell and cell[:3] == [True, True, True] and cell[5] >= 1, f"a cell of M lights {cell}"
    triplet = point("diagram", "return [f.px(Math.max(t.sap[0], 0)), f.py(Math.max(t.san[0], 0))];")
    assert triplet and triplet[:3] == [True, True, True] and triplet[3:5] == [3, 4], f"a triplet lights {triplet}"
    one = point("swarm", "return p.place(p.F, 5, f);")
    assert one and one[:3] == [True, True, True] and one[3] == 3, f"a point lights {one}"
    page.mouse.move(5, 5)
    assert lit() is None, "light stays without a pointer"
    matrix = page.locator("#bench .cards > .matrix canvas").first
    matrix.focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    until(page, "() => document.getElementById('live').textContent.startsWith('M[')", "the live region does not tell a cell")
    assert lit(), "keys light nothing"
    page.keyboard.press("Escape")
    assert lit() is None, "Escape leaves the light"
    press(page, "Positive", "ArrowRight", 3, "#bench")
    press(page, "The lone triplet", "ArrowUp", 2, "#bench")


def flow(page):
    page.get_by_role("button", name="Play", exact=True).last.click()
    until(page, "() => Bench.a.player.steps > 20", "the flow does not move")
    page.get_by_role("button", name="Pause", exact=True).last.click()
    page.wait_for_timeout(200)
    steps = page.evaluate("() => Bench.a.player.steps")
    page.get_by_role("group", name="Flow").get_by_role("button", name="Step").click()
    until(page, f"() => Bench.a.player.steps === {steps + 1}", "a step is not one step")
    least = page.evaluate("""async () => {
        const all = [...document.querySelectorAll("#bench .cards canvas")].filter((c) => c.offsetParent), until = performance.now() + 1500;
        let least = 1, since = 0, last = performance.now(); // When they began to be busy: what takes long may fade them.
        for (let k = 0; performance.now() < until; k++) {
            if (k % 20 === 0) [() => Bench.flow(true), () => Bench.flow(false), () => Bench.a.player.step()][k / 20 % 3]();
            const now = await new Promise(requestAnimationFrame);
            since = Bench.cards.hasAttribute("data-busy") ? since || last : 0;
            last = now;
            if (Bench.a.player.playing || now - since < 350) least = Math.min(least, ...all.map((c) => Number(getComputedStyle(c).opacity)));
        }
        Bench.flow(false);
        return least;
    }""")
    assert least == 1, f"pictures fade to {least} in a flow"
    lengths = page.evaluate("() => { const p = Bench.a.player, d = p.start.dim; return [...Array(p.start.n).keys()].map((i) => Math.hypot(...p.F.slice(i * d, (i + 1) * d))); }")
    assert all(abs(x - 1) < 1e-4 for x in lengths), "points leave the sphere"
    page.get_by_role("button", name="Compare two").click()
    until(page, "() => Bench.b.result && [...document.querySelectorAll('#bench .card')].filter((c) => c.offsetParent).length === 13", "no second rule beside the first")
    assert page.evaluate("() => Bench.a.player.steps") == 0, "two rules do not start together"
    page.get_by_role("button", name="Play", exact=True).last.click()
    until(page, "() => Bench.a.player.steps > 10 && Bench.b.player.steps > 10", "two flows do not move")
    page.get_by_role("button", name="Pause", exact=True).last.click()
    page.get_by_role("group", name="Flow").get_by_role("button", name="Reset").click()
    until(page, "() => Bench.a.player.steps === 0", "no restart")


def link(browser, page):
    page.locator("#bench .side").nth(1).locator("select[name=pair]").select_option("euc")
    press(page, "Negative", "ArrowLeft", 4, "#bench")
    page.locator("#bench select[name=show]").select_option("weight")
    page.locator("#bench input[name=rate]").fill("0.05")
    for _ in range(3):
        page.get_by_role("group", name="Flow").get_by_role("button", name="Step").click()
    until(page, "() => location.hash.includes('steps=3')", "the address has no steps")
    hash_ = page.evaluate("() => location.hash")
    assert "steps=3" in hash_ and "b=" in hash_ and "show=weight" in hash_, hash_
    other = open_page(browser, base + hash_)
    until(other, "() => Bench.a.player.steps === 3 && Bench.b.player.steps === 3", "a link does not lead to its step")
    other.wait_for_timeout(600)
    look = """() => ({link: Bench.link(), a: Bench.a.name, b: Bench.b.name, F: [...Bench.a.player.F].slice(0, 6), lone: Bench.state.triplet})"""
    one, two = page.evaluate(look), other.evaluate(look)
    assert one["link"] == two["link"] and one["a"] == two["a"] and one["b"] == two["b"] and one["F"] == two["F"], f"{one} is not {two}"
    other.reload()
    other.wait_for_selector("body[data-ready]")
    until(other, f"() => Bench.link() === {json.dumps(one['link'])} && Bench.a.player.steps === 3", "a reload changes the state")
    other.evaluate("() => { location.hash = '#a=cos/con/con&batch=4x4x2,0.5,2'; }")
    until(other, "() => Bench.a.name === 'cos/con/con' && !Bench.state.compare && Bench.a.result.n === 16", "a new address is not read")
    other.evaluate("() => { location.hash = '#a=loss:ms?beta=20&batch=4x4x2,0.5,2'; }")
    until(other, "() => Bench.a.name === 'ms?beta=20' && Bench.a.kind === 'loss' && Bench.link().startsWith('#a=loss:ms?beta=20&')", "a loss in an address is not read")
    other.goto("about:blank")
    other.goto(base + "#a=cos/%zz/(&batch=9,9&triplet=x&rate=1e99&steps=-4&view=nothing&show=__proto__")
    other.wait_for_selector("body[data-ready]")
    until(other, "() => document.querySelector('#bench .side .problem').textContent.includes('%zz')", "a broken link has no message")
    assert other.evaluate("() => Bench.a.name === 'cos/con/con' && Bench.state.show === 'pull'") and not other.locator("#bench .card.stale").count(), "a broken link has no pictures"
    other.evaluate("() => { location.hash = '#a=cos/lin/con&batch=4x4x2,0.5.5,2'; }")
    until(other, "() => Bench.a.name === 'cos/lin/con' && Bench.a.result.n === 32", "a batch with the noise 0.5.5 is read")
    other.evaluate("() => { location.hash = '#a=cos/lin/lin&batch=4x4x2,.5,12345678901234567890'; }")
    until(other, "() => Bench.a.problemLine.textContent.includes('lin') && Bench.a.result.n === 32", "a batch with a seed of twenty digits is read")
    other.context.close()


def saving(page):
    page.locator("#workbench").scroll_into_view_if_needed()
    for kind in ("diagram", "matrix", "swarm", "recall", "circle"):
        card = page.locator(f"#bench .cards > .{kind}").first
        card.scroll_into_view_if_needed()
        card.locator(".view").hover()
        with page.expect_download() as got:
            card.get_by_role("button", name="Save as SVG").click()
        path = got.value.path()
        root = xml.etree.ElementTree.parse(path).getroot()
        assert root.tag.endswith("svg") and len(list(root)) > 3 and got.value.suggested_filename.endswith(f"{kind}.svg"), got.value.suggested_filename
        with page.expect_download() as got:
            card.get_by_role("button", name="Save as PNG").click()
        with open(got.value.path(), "rb") as f:
            raw = f.read()
        width = struct.unpack(">I", raw[16:20])[0]
        assert raw[:8] == b"\x89PNG\r\n\x1a\n" and width > 600, f"a PNG {width} pixels wide"
        with page.expect_download() as got:
            card.get_by_role("button", name="Save as PDF").click()
        with open(got.value.path(), "rb") as f:
            raw = f.read()
        at = int(re.search(rb"startxref\n(\d+)\n%%EOF", raw)[1])
        places = [int(x) for x in re.findall(rb"(\d{10}) 00000 n ", raw[at:])]
        assert raw[at:at + 4] == b"xref" and all(raw[x:].startswith(b"%d 0 obj" % (i + 1)) for i, x in enumerate(places)), f"{kind}: a PDF's table of objects is wrong"
        data = [zlib.decompress(raw[m.end():m.end() + int(m[1])]) for m in re.finditer(rb"/Length (\d+)>>\nstream\n", raw)]
        assert len(data) == 1 + raw.count(b"/Subtype /Image") and not re.search(rb"NaN|undefined|\(\?\)", data[0]), f"{kind}: {data[0][:300]}"
        assert len(re.findall(rb"(?<!\S)q ", data[0])) == len(re.findall(rb"(?<!\S)Q(?!\S)", data[0])), f"{kind}: a PDF does not restore what it saves"
        if kind == "diagram":
            letter, below = re.search(rb"/H ([\d.]+) Tf 0 Ts \(S\) Tj [-\d. ]+ Tm /H ([\d.]+) Tf 0 Ts \(ap\) Tj", data[0]).groups()
            assert float(below) < float(letter) and b"/Subtype /Image /Width" in raw, "no S with a subscript, or no weights, in a PDF"
        if kind == "matrix":
            assert re.search(rb"/S [\d.]+ Tf 0 Ts \(-\) Tj /H [\d.]+ Tf 0 Ts \(0[.\d]+\) Tj", data[0]), "no true minus sign in a PDF"


def copying(page):
    page.evaluate("() => { location.hash = '#a=cos/lin/cir?tau=2'; }")
    until(page, "() => Bench.a.name === 'cos/lin/cir?tau=2'", "a new address is not read")
    got = {}
    for what in ("name", "Go", "command"):
        page.locator("#bench .side").first.get_by_role("button", name=f"Copy {what}").click()
        settle(page)
        page.wait_for_timeout(200)
        got[what] = page.evaluate("() => navigator.clipboard.readText()")
    assert got["name"] == "cos/lin/cir?tau=2" and got["Go"] == 'dmlx.ParseRule("cos/lin/cir?tau=2")' and "train" in got["command"] and "cos/lin/cir?tau=2" in got["command"], got


def alone(browser):
    page = open_page(browser, "file://" + os.path.abspath(single) + "#a=cos/lin/con&batch=4x4x2,0.5,1")
    until(page, "() => Bench.a.name === 'cos/lin/con' && Bench.a.result.n === 16", "the single file does not compute")
    page.locator("#bench select[name=pair]").first.select_option("con")
    until(page, "() => location.hash.includes('cos/con/con')", "a file has no state in its address")
    page.locator("#learn").get_by_role("button", name="Step").click()
    until(page, "() => Bench.a.learn.at === 1", "a file does not train: " + page.locator("#learn").inner_text())
    page.context.close()


def sizes(browser):
    page = open_page(browser, base + "#a=cos/lin/cir&b=cos/con/con", has_touch=True)
    for width in (360, 768, 1366, 2560):
        for theme in ("light", "dark") if shots else ("light",):  # A theme moves nothing.
            page.set_viewport_size({"width": width, "height": 900})
            page.emulate_media(color_scheme=theme)
            page.wait_for_timeout(100)
            for y in range(0, page.evaluate("() => document.documentElement.scrollHeight"), 900):
                page.evaluate(f"() => scrollTo({{top: {y}, behavior: 'instant'}})")
            wide = page.evaluate("() => document.documentElement.scrollWidth")
            assert wide <= width, f"at {width} pixels the page is {wide} wide"
            if shots:
                page.wait_for_timeout(500)
                page.screenshot(path=os.path.join(shots, f"page-{width}-{theme}.png"), full_page=True)
        box = page.locator("#step1").get_by_role("slider", name="Positive").bounding_box()
        assert min(box["width"], box["height"]) > 43.5, "a handle is too small for a finger"
    # A finger drags a handle, and the page does not scroll under it.
    page.set_viewport_size({"width": 360, "height": 760})
    page.locator("#step1 .view").first.scroll_into_view_if_needed()
    box = page.locator("#step1").get_by_role("slider", name="Positive").bounding_box()
    before = page.locator("#step1").get_by_role("slider", name="Positive").get_attribute("aria-valuenow")
    client = page.context.new_cdp_session(page)
    x, y = box["x"] + 22, box["y"] + 22
    client.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [{"x": x, "y": y}]})
    for k in range(6):
        client.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": [{"x": x - 4 * k, "y": y + 12 * k}]})
    client.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    page.wait_for_timeout(200)
    after = page.locator("#step1").get_by_role("slider", name="Positive").get_attribute("aria-valuenow")
    assert abs(float(after) - float(before)) > 5, f"a finger moves the positive from {before} to {after} degrees"
    page.context.close()


MOVES = """async (within) => {
  // For each control: whether some place of the page has it in view together with a picture that it moves.
  const small = new OffscreenCanvas(120, 120).getContext("2d", {willReadFrequently: true}), found = [], wait = (ms) => new Promise((r) => setTimeout(r, ms));
  const look = (v) => { small.clearRect(0, 0, 120, 120); small.drawImage(v.canvas, 0, 0, 120, 120); return small.getImageData(0, 0, 120, 120).data.reduce((h, x) => (31 * h + x) % 2147483647, 7); };
  const calm = async () => { for (let k = 0; k < 2; k++) { await Story.engine.call("describe"); await wait(40); } };
  const seen = (e) => {
    const b = e.getBoundingClientRect(), x = b.left + b.width / 2, at = (y) => document.elementFromPoint(x, y);
    return b.top >= -1 && b.bottom <= innerHeight + 1 && b.left >= -1 && x <= innerWidth && [b.top + 2, b.bottom - 2].every((y) => at(y) && (e.contains(at(y)) || e.parentElement.contains(at(y)) || e.closest('.view')?.contains(at(y))));
  };
  const controls = [...document.querySelectorAll(within)].filter((c) => c.offsetParent && !c.disabled && !c.closest(".save") && c.textContent !== "Reset");
  controls.sort((x, y) => (y.type === "range") - (x.type === "range")); // A select may turn sliders off.
  for (const c of controls) {
    if (c.disabled) continue;
    await calm();
    const near = [...views].filter((v) => v.canvas.offsetParent && v.canvas.closest("main > section") === c.closest("main > section")), before = near.map(look), is = c.name || c.textContent || c.id;
    c.scrollIntoView({block: "center", behavior: "instant"});
    if (c.tagName === "SELECT") { c.selectedIndex = (c.selectedIndex + 1) % c.options.length; c.dispatchEvent(new Event("change", {bubbles: true})); }
    else if (c.type === "range") { c.value = Number(c.value) < (Number(c.min) + Number(c.max)) / 2 ? Number(c.max) * 0.8 : Number(c.min); for (const e of ["input", "change"]) c.dispatchEvent(new Event(e, {bubbles: true})); }
    else c.click();
    if (["Play", "Train"].includes(is)) { for (let k = 0; k < 40 && near.every((v, i) => look(v) === before[i]); k++) await wait(50); c.click(); }
    const own = is === "stride" ? Bench.a.views.swarm.canvas : c.closest(".card")?.querySelector("canvas"); // Only a flow or a training shows it.
    let moved = own ? [own] : [];
    for (let k = 0; k < 60 && !moved.length; k++) { await wait(50); moved = near.filter((v, i) => look(v) !== before[i]).map((v) => v.canvas); }
    if (!moved.length) { found.push([is, "moves no picture"]); continue; }
    let together = false;
    for (const m of moved) for (const block of ["center", "start"]) {
      m.scrollIntoView({block, behavior: "instant"});
      together ||= seen(c) && seen(m);
    }
    for (const block of ["center", "start", "end", "nearest"]) {
      c.scrollIntoView({block, behavior: "instant"});
      together ||= seen(c) && moved.some(seen);
      if (block === "end") { scrollBy({top: 60, behavior: "instant"}); together ||= seen(c) && moved.some(seen); }
    }
    found.push([is, together ? "" : "not in view with a picture that it moves"]);
  }
  return found;
}"""


def together(browser):
    """Any control is in view together with a picture that it moves."""
    worst, told = [], {}
    for width, height, view in ((390, 844, ""), (880, 768, ""), (930, 768, ""), (1366, 768, ""), (930, 650, "&view=bench"), (1480, 900, "&view=bench")):
        page = open_page(browser, base + "#a=cos/lin-ms/cir?tau=4&batch=6x4x3,0.7,1" + view, viewport={"width": width, "height": height})
        page.evaluate("() => { for (const d of document.querySelectorAll('#bench details')) d.open = false; }")
        if view:  # A frame is as high as its page, and the notebook around it scrolls: its place is that of the window here.
            page.evaluate("() => { document.documentElement.style.overflow = 'auto'; }")
        page.locator("#workbench").scroll_into_view_if_needed()
        found = page.evaluate(MOVES, "#bench .side select:not([name=alias], [name=example]), #bench .side input[type=range], #bench .cards select, #bench .cards input, #bench .bar > :not(.data) :is(input, button.action), #learn :is(select, input, button.action)")
        page.evaluate("() => { Bench.batchFold.open = true; }")
        found += page.evaluate(MOVES, "#bench .batch select, #bench .batch > .dials input[type=range]")
        told[f"{width} × {height}{view}"] = len(found)
        worst += [f"{width}{view}: {name} {problem}" for name, problem in found if problem]
        if not view and width != 880:
            for step in range(1, 9):
                page.locator(f"#step{step}").scroll_into_view_if_needed()
                until(page, f"() => document.querySelector('#step{step} .result').textContent", f"step {step} does not start")
                if step == 4:
                    page.locator("#step4").get_by_role("button", name="Skip").click()
                found = page.evaluate(MOVES, f"#step{step} figure :is(select, input[type=range], button.action)")
                worst += [f"{width}, step {step}: {name} {problem}" for name, problem in found if problem]
        if shots:
            page.locator("#workbench").scroll_into_view_if_needed()
            page.screenshot(path=os.path.join(shots, f"bench-{width}{view[6:]}.png"))
        page.context.close()
    assert not worst, "; ".join(worst)
    return f"controls: {told}"


def race(browser):
    """Heads learn by four directions from one start and the same batches."""
    page = open_page(browser, base)
    page.evaluate("() => document.getElementById('race').scrollIntoView({behavior: 'instant'})")
    start, step, again = (page.locator("#race").get_by_role("button", name=name, exact=True) for name in ("Start", "Step", "Reset"))
    start.focus()
    page.keyboard.press("Enter")
    until(page, "() => Race.runs().every((r) => r.recall.length)", "no recall of the start")
    began = time.monotonic()
    until(page, "() => Race.runs().every((r) => r.at >= 100)", "no 100 steps of four", timeout=60000)
    notes["steps of each of four heads and their recall, steps/s"] = round(100 / (time.monotonic() - began), 1)
    page.locator("#race").get_by_role("button", name="Pause", exact=True).click()
    settle(page)
    runs = page.evaluate("() => Race.runs().map((r) => ({of: r.subject.rule, gain: r.recall.at(-1) - 100 * Trainer.about.recall, crowded: r.crowded, n: r.triplets.count}))")
    cos, euc, cos_orth, euc_orth = (r["crowded"] for r in runs)
    assert all(r["n"] == 960 and r["gain"] >= 5 for r in runs), f"100 steps gain too little: {runs}"
    assert euc > cos and euc_orth > cos_orth, f"the Euclidean directions do not crowd: {runs}"
    drawn = page.evaluate("() => Race.diagrams.map((d) => [d.view.svg().split('<circle').length - 1, d.line.textContent])")
    assert all(n >= 960 and f"{round(r['crowded'])} % crowded" in line for (n, line), r in zip(drawn, runs)), drawn
    bits = []
    for _ in range(2):
        again.click()
        assert page.evaluate("() => Race.runs().map((r) => r.at)") == [0] * 4 and page.evaluate("() => Race.heats.length") == 1, "Reset keeps something"
        for _ in range(3):
            step.click()
        until(page, "() => Race.runs().every((r) => r.at === 3)", "no three single steps")
        bits.append(page.evaluate("() => Race.runs().map((r) => [...r.weight, ...r.bias])"))
    assert bits[0] == bits[1] and bits[0][0] != bits[0][1], "the same start and batches give other bits, or two directions the same ones"
    page.locator("#race select[name=race-pair]").select_option("lin")
    page.evaluate("() => { Race.finish = 20; }")
    start.click()
    until(page, "() => Race.ended.length === 3 && !Race.playing", "no end of three seeds", timeout=60000)
    recalls = dict(zip(("cos", "euc", "cos-orth", "euc-orth"), page.evaluate("() => Race.lanes.map((_, k) => Race.heats.map((h) => h[k].recall.at(-1)))")))
    assert page.evaluate("() => Race.heats.flat().every((r) => r.subject.rule.endsWith('/lin/con'))")
    said = page.locator("#race > .readout").inner_text()
    best = max(recalls, key=lambda name: statistics.mean(recalls[name]))
    for name, values in recalls.items():
        by = [v - w for v, w in zip(recalls[best], values)]
        wide = 4.303 * statistics.stdev(by) / 3 ** 0.5
        told = page.evaluate("([m, s]) => `${number(m, 1)} ± ${number(s, 1)} %`", [statistics.mean(values), statistics.stdev(values)])
        assert f" {name} {told}" in said.split("Recall@1:")[1], (name, told, said)
        if name != best:
            assert f"points ahead of {name}: {'beyond' if statistics.mean(by) > wide else 'within'} the noise" in said, said
    lines = page.evaluate("() => Race.curves.series.map((s) => [s.name || '', s.width])")
    assert len(lines) == 17 and len([1 for name, width in lines if not name and width < 1]) == 12, f"curves: {lines}"
    for width, theme in ((1366, "light"), (390, "light"), (390, "dark"), (1366, "dark")):
        page.set_viewport_size({"width": width, "height": 844})
        page.emulate_media(color_scheme=theme)
        page.evaluate("() => document.querySelector('#race .controls').scrollIntoView({behavior: 'instant'})")
        page.wait_for_timeout(200)
        beyond = page.evaluate("() => [...document.querySelectorAll('#race :is(canvas, button:not([hidden]), select, input, p)')].filter((e) => e.getBoundingClientRect().right > innerWidth || !e.getClientRects().length && e.textContent).length")
        assert beyond == 0 and page.evaluate("() => document.documentElement.scrollWidth") <= width, f"{beyond} parts of the race are beyond {width} pixels"
        if shots:
            page.screenshot(path=os.path.join(shots, f"race-{width}-{theme}.png"))
    page.context.close()


LOOKS = "() => KINDS.slice(0, 4).map((k) => Bench.a.views[k].canvas.toDataURL())"


def one_screen(browser):
    """From a rule to its recall without scrolling; a strip on a phone; τ and a picture that it moves at 200 %."""
    for theme in ("light", "dark"):
        page = open_page(browser, base + "#a=cos/lin/cir?tau=4", viewport={"width": 1366, "height": 768}, color_scheme=theme)
        page.evaluate("() => { for (const d of document.querySelectorAll('#bench details')) d.open = false; document.getElementById('bench').scrollIntoView({behavior: 'instant'}); }")
        until(page, "() => Bench.a.ahead && Bench.a.numbers.arrows", "no recall of what is ahead")
        out = page.evaluate("""() => {
            const parts = [...document.querySelectorAll("#bench :is(h2, .flow, .data summary, .side > .dials, .equation)"), ...Bench.a.cards.slice(0, 4)].filter((e) => e.offsetParent), top = document.querySelector(".top").getBoundingClientRect().bottom;
            const boxes = Bench.a.cards.slice(0, 4).map((c) => c.getBoundingClientRect());
            return {seen: parts.length, cut: parts.filter((e) => { const b = e.getBoundingClientRect(); return b.top < top - 1 || b.bottom > innerHeight || b.right > innerWidth; }).map((e) => e.className || e.textContent),
                row: boxes.every((b, i) => !i || (b.top === boxes[0].top && b.height === boxes[0].height && b.left > boxes[i - 1].right)), heads: Bench.a.headings.slice(0, 4).map((h) => h.textContent), bottom: Math.round(boxes[0].bottom)};
        }""")
        assert out["seen"] == 10 and not out["cut"] and out["row"] and out["heads"] == ["Weight map", "Gradient matrix M", "Steps of the points", "Recall@1"], out
        for name, value in (("direction", "euc-orth"), ("pair", "sig-ms"), ("triplet", "con"), ("mask", "sc1")):
            before = page.evaluate(LOOKS)
            page.locator(f"#bench .side select[name={name}]").first.select_option(value)
            for _ in range(40):
                page.wait_for_timeout(100)
                same = [kind for kind, x, y in zip(("map", "M", "sphere", "recall"), before, page.evaluate(LOOKS)) if x == y]
                if not same:
                    break
            assert not same, f"{name} {value} leaves {same}"
        place = "() => { const v = Bench.a.views.diagram, p = v.picture, f = p.frame(v.width, v.height), t = Bench.a.result.triplets, b = v.canvas.getBoundingClientRect(); " \
                "return [b.left + f.px(Math.max(t.sap[0], 0)) * v.scale, b.top + f.py(Math.max(t.san[0], 0)) * v.scale]; }"
        drawn = """() => [...document.querySelectorAll("#bench .paths path")].map((p) => { const m = p.getScreenCTM(), n = p.getTotalLength(); return [0, n].flatMap((at) => { const q = p.getPointAtLength(at).matrixTransform(m); return [q.x, q.y]; }); })"""
        x, y = page.evaluate(place)
        page.mouse.move(x, y)
        lines = page.evaluate(drawn)
        k = page.evaluate("() => Bench.a.pictures.matrix.lit.first")
        x, y = page.evaluate(place.replace("[0]", f"[{k}]"))
        assert len(lines) == 8 and sum(abs(l[0] - x) + abs(l[1] - y) < 1.5 for l in lines) == 4, f"a triplet at {x}, {y} has the paths {lines}"
        ends = page.evaluate("""() => { const s = Bench.a, t = s.result.triplets, k = s.pictures.matrix.lit.first, [a, p] = [t.anchor[k], t.positive[k]], m = s.views.matrix, f = m.picture.frame(m.width, m.height), w = s.views.swarm,
            at = (v, q) => { const b = v.canvas.getBoundingClientRect(); return [b.left + q[0] * v.scale, b.top + q[1] * v.scale]; };
            return [at(m, [f.x + (p + 0.5) * f.cell, f.y + (a + 0.5) * f.cell]), at(w, w.picture.place(w.picture.F, a, w.picture.frame(w.width, w.height)))].flat(); }""")
        assert any(abs(l[2] - ends[0]) + abs(l[3] - ends[1]) < 1.5 for l in lines), f"no path from the triplet to its entry of M at {ends[:2]}: {lines}"
        assert any(sum(abs(u - v) for u, v in zip(l, ends)) < 3 for l in lines), f"no path from an entry of M to the step that it makes at {ends}: {lines}"
        page.mouse.move(5, 5)
        assert not page.evaluate(drawn), "paths stay"
        page.locator("#bench .cards > .diagram canvas").first.focus()
        page.keyboard.press("ArrowRight")
        assert len(page.evaluate(drawn)) == 8, "keys draw no path"
        if shots:
            page.screenshot(path=os.path.join(shots, f"screen-1366-{theme}.png"))
        page.context.close()
    page = open_page(browser, base + "#a=cos/lin/cir?tau=4", viewport={"width": 390, "height": 844})
    page.evaluate("() => { for (const d of document.querySelectorAll('#bench details')) d.open = false; document.getElementById('bench').scrollIntoView({behavior: 'instant'}); scrollBy({top: 150, behavior: 'instant'}); Bench.cards.scrollLeft = 260; }")
    page.wait_for_timeout(900)
    strip = page.evaluate("""() => { const box = (e) => e.getBoundingClientRect(), dials = box(Bench.a.ruleControls), left = box(Bench.cards).left;
        return {tops: new Set(Bench.a.cards.slice(0, 4).map((c) => box(c).top)).size, snapped: Math.min(...Bench.a.cards.map((c) => Math.abs(box(c).left - left))), moved: Bench.cards.scrollLeft,
            chips: dials.top >= box(document.querySelector(".top")).bottom - 2 && dials.bottom <= box(Bench.a.cards[0]).top + 8, bottom: box(Bench.cards).bottom <= innerHeight}; }""")
    assert strip["tops"] == 1 and strip["snapped"] < 1.5 and strip["moved"] > 50 and strip["chips"] and strip["bottom"], f"the strip at 390 pixels: {strip}"
    page.context.close()
    page = open_page(browser, base + "#a=cos/lin/cir?tau=4", viewport={"width": 683, "height": 384}, device_scale_factor=2)
    page.evaluate("() => { for (const d of document.querySelectorAll('#bench details')) d.open = false; Bench.cards.scrollIntoView({behavior: 'instant'}); }")
    page.wait_for_timeout(600)
    inside = """() => ["#bench input[name=tau]", "#bench .cards canvas"].map((s) => { const b = document.querySelector(s).getBoundingClientRect(); return b.width > 0 && b.top >= 0 && b.bottom <= innerHeight && b.right <= innerWidth; })"""
    assert page.evaluate(inside) == [True, True], f"τ and the weight map at 200 %: {page.evaluate(inside)}"
    before = page.evaluate(LOOKS)[0]
    page.locator("#bench input[name=tau]").first.fill("9")
    until(page, "() => Bench.a.name.includes('tau=9')", "τ has no effect")
    assert page.evaluate(LOOKS)[0] != before and page.evaluate(inside) == [True, True], "τ moves nothing in view at 200 %"
    page.context.close()
    return f"the row of pictures ends at {out['bottom']} of 768 pixels"


def npy(values, dtype, shape):
    head = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    head += b" " * (63 - (len(head) + 10) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + struct.pack(f"<{len(values)}{ {'<f4': 'f', '<i8': 'q'}[dtype]}", *values)


def own_data(browser):
    page = open_page(browser, base + "#a=cos/lin/cir?tau=4", color_scheme="dark")
    panel, files = page.locator("#bench .own"), page.locator("#bench .own input[type=file]")
    assert panel.locator("summary").inner_text() == "Your data" and "256 rows" in panel.inner_text() and "4 MiB" in panel.inner_text()

    def give(*named):
        files.set_input_files([{"name": name, "mimeType": "text/csv", "buffer": content if isinstance(content, bytes) else content.encode()} for name, content in named])

    def refused(want, *named):
        give(*named)
        until(page, "() => document.querySelector('#bench .own .problem').textContent", f"{named[0][0]} has no message")
        said = panel.locator(".problem").inner_text()
        assert want in said, f"{named[0][0]}: {said}"

    good = "id,label,x,y,z\n" + "".join(f"p{i},{'ab'[i % 2]},{1 + i % 3},{(i * 7) % 5 - 2},{0.5 * i - 1}\n" for i in range(8))
    give(("good.csv", good))
    until(page, "() => Bench.own && Bench.a.result.n === 8 && Bench.a.result.dim === 3 && Bench.a.result.labels.join('') === '00001111'", "a CSV file is not shown, class by class")
    until(page, "() => Bench.a.pictures.diagram.triplets.count > 0 && Bench.a.pictures.matrix.n === 8 && Bench.a.pictures.swarm.n === 8 && /^Of 8 points/.test(Bench.a.lines.recall.textContent)", "a picture does not show it")
    right = page.evaluate("""() => { const {f, n, dim, labels} = Bench.a.result; let right = 0;
        for (let i = 0; i < n; i++) { const s = (j) => [...Array(dim).keys()].reduce((sum, d) => sum + f[i * dim + d] * f[j * dim + d], 0); right += labels[[...Array(n).keys()].filter((j) => j !== i).sort((x, y) => s(y) - s(x))[0]] === labels[i]; }
        return Math.round(100 * right / n); }""")
    assert f"{right} % at the start" in page.evaluate("() => Bench.a.lines.recall.textContent"), "the recall is not that of the points"
    for _ in range(3):
        page.get_by_role("group", name="Flow").get_by_role("button", name="Step").click()
    until(page, "() => /at the start, \\d+ % at step 3/.test(Bench.a.lines.recall.textContent)", "no recall before and after the flow")
    refused("bad.csv, line 4: value 2 is “much”; want a number", ("bad.csv", good.replace("p2,a,3,2", "p2,a,3,much")))
    assert page.evaluate("() => Bench.own.n") == 8, "a bad file takes away what was there"
    refused("decimals.csv, line 2: value 1 is “0,25”; want a number such as 0.25", ("decimals.csv", "id;label;x;y\n1;a;0,25;0,75\n2;a;1;2\n3;b;2;1\n"))
    give(("tabs.csv", good.replace(",", "\t")))
    until(page, "() => Bench.own.n === 8 && Bench.own.dim === 3 && !document.querySelector('#bench .own .problem').textContent", "tabs separate no values")
    refused("short.csv, line 3: 2 values; want 3", ("short.csv", "id,label,x,y,z\n1,a,1,2,3\n2,b,1,2\n"))
    refused("large.csv: 5 MiB; want at most 4", ("large.csv", b"1" * (5 << 20)))
    refused("300 rows; want 2 to 256", ("many.csv", "".join(f"{i},{i % 3},1,{i}\n" for i in range(300))))
    refused("one.csv: 0 rows".split(": ")[1], ("one.csv", ""))
    refused("neither .csv nor .npy", ("picture.png", "png"))
    points = npy([float((5 * i) % 7 - 2) or 1.0 for i in range(24)], "<f4", (6, 4))
    refused("e.npy: no labels", ("e.npy", points))
    refused("l.npy: 5 labels; want 6", ("e.npy", points), ("l.npy", npy([0, 0, 0, 1, 1], "<i8", "(5,)")))
    refused("e.npy: it ends early", ("e.npy", points[:-4]), ("l.npy", npy([0, 0, 0, 1, 1, 1], "<i8", "(6,)")))
    give(("e.npy", points), ("l.npy", npy([0, 0, 0, 1, 1, 1], "<i8", "(6,)")))
    until(page, "() => Bench.own.n === 6 && Bench.a.result.n === 6 && Bench.a.result.dim === 4 && !document.querySelector('#bench .own .problem').textContent", ".npy files are not shown")
    first = panel.get_by_label("the first column of a .npy is the label")
    first.check()
    give(("labeled.npy", npy([x for i in range(6) for x in (7.0 + i % 2, 1.0, i, -i)], "<f4", (6, 4))))
    until(page, "() => Bench.own.dim === 3 && Bench.own.names.join() === '7,8' && Bench.a.result.labels.join('') === '000111'", "the first column gives no labels")
    first.uncheck()
    until(page, "() => /no labels/.test(document.querySelector('#bench .own .problem').textContent)", "without its first column the array has labels")
    page.get_by_role("button", name="Back to the sample").click()
    until(page, "() => !Bench.own && Bench.a.result.n === 32", "no way back to the sample")
    with page.expect_download() as got:
        panel.get_by_role("button", name="Download a sample").click()
    with open(got.value.path()) as f:
        give((got.value.suggested_filename, f.read()))
    until(page, "() => Bench.own?.n === 32 && Bench.own.dim === 3 && Bench.own.names.length === 8 && Bench.a.result.n === 32", "the sample is not what is read")
    page.context.close()


def learning(browser):
    """A head learns, by two rules from one start."""
    asked, page = [], open_page(browser, base + "#a=cos/lin/cir?tau=4")
    page.on("request", lambda r: asked.append(r.url))
    train, steps = page.locator("#learn button.main"), "() => [Bench.a.learn.at, Bench.b.learn.at]"
    page.get_by_role("button", name="Compare two").click()
    train.scroll_into_view_if_needed()
    page.wait_for_timeout(100)
    assert not any("features" in url for url in asked), "the features are loaded before they are asked for"
    began = time.monotonic()
    train.focus()
    page.keyboard.press("Enter")
    until(page, "() => Bench.a.learn.recall.length && Bench.b.learn.recall.length", "no recall")
    notes["a head's first recall after Train, s"] = round(time.monotonic() - began, 2)
    until(page, "() => Bench.a.learn.at >= 40 && Bench.b.learn.at >= 40", "no 40 steps")
    notes["steps of two heads and their recall, steps/s"] = round(80 / (time.monotonic() - began), 1)
    line = page.locator("#learn .readout").first.inner_text()
    assert all(text in line for text in ("A: cos/lin/cir?tau=4", "B: cos/con/con", "at the start")), line
    assert page.evaluate("() => { const [x, y] = [Bench.a.learn, Bench.b.learn]; return x.recall[0] === y.recall[0] && x.recall.at(-1) !== y.recall.at(-1) && y.recall.at(-1) > y.recall[0]; }")
    page.locator("#bench .side").first.locator(".open").click()
    train.scroll_into_view_if_needed()  # The parts of the rule stay at the top of the window.
    page.locator("#bench .side").first.locator("input[name=tau]").fill("9")
    until(page, "() => Bench.a.learn.by.includes('tau=9')", "the slider has no effect while it trains")
    assert "rule changed at step" in page.evaluate("() => Bench.a.learn.line.textContent")
    assert page.evaluate("() => Learn.curves.alt + Bench.a.learn.picture.alt").count("cos/lin/cir?tau=9 from") == 1
    train.click()
    settle(page)
    at = page.evaluate(steps)
    page.wait_for_timeout(300)
    assert page.evaluate(steps) == at and train.inner_text() == "Train", "Pause does not stop it"
    x, y = page.evaluate("""() => {
        const v = Bench.a.learn.view, p = v.picture, box = v.canvas.getBoundingClientRect(), f = p.frame(v.width, v.height);
        scrollBy({top: box.top - 200, behavior: "instant"});
        const at = p.place(p.F, 33, f), moved = v.canvas.getBoundingClientRect();
        return [moved.left + at[0] * v.scale, moved.top + at[1] * v.scale];
    }""")
    page.mouse.move(x, y)
    lit = page.evaluate("""() => Bench.sides.map((s) => {
        const {F, n, dim, labels, lit} = s.learn.picture, [a, p, q] = lit.points, cos = (i) => {
            let dot = 0, aa = 0, bb = 0;
            for (let d = 0; d < dim; d++) { const u = F[a * dim + d], v = F[i * dim + d]; dot += u * v; aa += u * u; bb += v * v; }
            return dot / Math.sqrt(aa * bb);
        };
        const least = (same, of) => [...Array(n).keys()].every((i) => i === a || (labels[i] === labels[a]) !== same || cos(i) <= cos(of) + 1e-6);
        return {a, near: Math.hypot(...[0, 1].map((k) => s.learn.picture.place(F, a, s.learn.picture.frame(s.learn.view.width, s.learn.view.height))[k] -
            s.learn.picture.place(F, 33, s.learn.picture.frame(s.learn.view.width, s.learn.view.height))[k])), right: labels[p] === labels[a] && p !== a &&
            labels[q] !== labels[a] && least(true, p) && least(false, q), images: s.learn.view.svg().split("<image").length - 1 - n};
    })""")
    assert lit[0]["near"] < 1 and lit[0]["a"] == lit[1]["a"] and all(s["right"] and s["images"] == 3 for s in lit), f"an image's nearest ones: {lit}"
    page.locator("#learn").get_by_role("button", name="Step").click()
    until(page, f"() => Bench.a.learn.at + Bench.b.learn.at > {sum(at)}", "no single step")
    assert page.evaluate("() => Bench.a.learn.picture.lit.points[0]") == lit[0]["a"], "a step leaves the image that was pointed at"
    train.click()
    page.evaluate("() => scrollTo({top: 0, behavior: 'instant'})")
    until(page, "() => !Learn.seen && !Learn.running", "it trains on out of sight")
    at = page.evaluate(steps)
    page.wait_for_timeout(300)
    assert page.evaluate(steps) == at, "it trains on out of sight"
    train.scroll_into_view_if_needed()
    until(page, f"() => Bench.a.learn.at > {at[0]}", "it does not go on when it is seen again")
    page.locator("#learn select").select_option("3")
    until(page, "() => Bench.a.learn.picture.dim === 3 && Bench.b.learn.picture.dim === 3", "no sphere")
    page.evaluate("() => Bench.a.read('loss:proxy-anchor')")
    until(page, "() => document.querySelector('#learn .problem').textContent.includes('has proxies')", "no word on a loss with proxies")
    page.evaluate("() => Bench.a.read('cos/con/con')")
    page.locator("#learn").get_by_role("button", name="Reset").click()
    assert page.evaluate(steps) == [0, 0] and page.evaluate("() => !Bench.a.learn.picture.F && !Learn.problem.textContent"), "Reset keeps something"
    for compared in (True, False):  # On a phone the images are in view with all that moves them.
        page.set_viewport_size({"width": 390, "height": 664})
        train.scroll_into_view_if_needed()
        out = page.evaluate("""() => {
            const all = [...document.querySelectorAll("#learn :is(.card:not(:first-child) canvas, button.action, input, select)")].filter((e) => e.offsetParent);
            document.getElementById("learn").scrollIntoView({block: "start", behavior: "instant"});
            const cut = all.filter((e) => { const b = e.getBoundingClientRect(), top = document.querySelector(".top").getBoundingClientRect().bottom; return b.top < top - 1 || b.bottom > innerHeight || b.right > innerWidth; });
            return [all.length, ...cut.map((e) => e.name || e.textContent || e.tagName)];
        }""")
        assert out == [7 + compared], f"out of view beside the images: {out}"
        if compared:
            page.get_by_role("button", name="Compare two").click()
    if shots:
        train.click()
        for width, height in ((1920, 1080), (1366, 768), (930, 768), (390, 844)):
            for theme in ("light", "dark"):
                page.set_viewport_size({"width": width, "height": height})
                page.emulate_media(color_scheme=theme)
                page.locator("#learn").scroll_into_view_if_needed()
                page.wait_for_timeout(700)
                page.screenshot(path=os.path.join(shots, f"learn-{width}-{theme}.png"))
    page.route("**/features.gz", lambda route: route.abort())
    page.reload()
    page.wait_for_selector("body[data-ready]")
    page.locator("#learn button.main").click()
    until(page, "() => document.querySelector('#learn .problem').textContent.startsWith('features.gz could not be loaded')", "no word on features that do not come")
    for name, content in (("features.gz", b"\x1f\x8b\x08"), ("cars.png", b"<html>")):
        page.unroute_all()
        page.route("**/" + name, lambda route, _, content=content: route.fulfill(body=content))
        page.locator("#learn button.main").click()
        until(page, f"() => document.querySelector('#learn .problem').textContent === '{name} is damaged: reload the page.'", f"no word on a damaged {name}")
    assert page.locator("#learn .readout").first.inner_text() == "Press Train.", "it still says that it loads"
    page.route("**/main.wasm.gz", lambda route: route.fulfill(body=b"\x1f\x8b\x08"))
    page.reload()
    until(page, "() => document.getElementById('loading').textContent === 'main.wasm.gz is damaged: reload the page.'", "no word on a damaged program")
    page.unroute_all()
    page.route("**/worker.js", lambda route: route.fulfill(status=404))
    page.reload()
    until(page, "() => document.getElementById('loading').textContent === 'worker.js does not start (not loaded): reload the page.'", "no word on a worker that does not come")
    page.unroute_all()
    page.route("**/main.wasm.gz", lambda route: route.fulfill(body=b"<html>"))
    page.reload()
    until(page, "() => /does not start .*: reload the page.$/.test(document.getElementById('loading').textContent)", "no word on what is no program")
    page.context.close()


def motion(browser):
    page = open_page(browser, base, reduced_motion="no-preference")
    until(page, "() => [...document.querySelectorAll('#start button')].some((b) => b.textContent === 'Pause')", "the flow at the top does not play")
    page.get_by_role("button", name="Pause", exact=True).first.click()
    page.context.close()
    page = open_page(browser, base)
    page.wait_for_timeout(300)
    assert page.locator("#start").get_by_role("button", name="Play", exact=True).count() == 1, "a flow plays though motion is reduced"
    page.get_by_role("button", name="Dark theme").click()
    page.get_by_role("button", name="Light theme").wait_for()
    assert page.evaluate("() => document.documentElement.hasAttribute('data-dark')"), "no dark theme"
    page.context.close()


def addresses(browser):
    """An address leads to its place, though the pictures above it grow, until the reader scrolls."""
    for width, height, name in ((1366, 768, "race"), (390, 844, "bench")):
        page = open_page(browser, base + "#" + name, viewport={"width": width, "height": height})
        page.wait_for_timeout(1500)
        top, head = page.evaluate("(name) => [document.getElementById(name), document.querySelector('.top')].map((e, i) => Math.round(e.getBoundingClientRect()[i ? 'bottom' : 'top']))", name)
        assert 0 <= top - head < 30, f"at {width} pixels #{name} is at {top}, below a header of {head}"
        page.mouse.wheel(0, -900)
        page.wait_for_timeout(200)
        at = page.evaluate("() => scrollY")
        page.evaluate("() => document.querySelector('#start figcaption').append('More. '.repeat(400))")
        page.wait_for_timeout(200)
        moved = page.evaluate("(name) => document.getElementById(name).getBoundingClientRect().top", name)
        assert moved - head > 400, f"at {width} pixels #{name} takes a reader back who has scrolled to {at}"
        if width > 390:
            page.context.close()
    page.evaluate("() => scrollTo({top: 0, behavior: 'instant'})")
    page.locator(".top a[href='#race']").click()
    until(page, "() => { const top = document.getElementById('race').getBoundingClientRect().top; return top > 60 && top < 110; }", "the link to the race does not lead there")
    page.set_viewport_size({"width": 360, "height": 740})
    links = page.locator(".top a").evaluate_all("all => all.filter((a) => a.offsetParent && a.getBoundingClientRect().right <= innerWidth).map((a) => a.hash)")
    assert links == ["#start", *[f"#step{k}" for k in range(1, 9)], "#bench", "#race"], f"links at 360 pixels: {links}"
    page.context.close()


def frames(page):
    for view in ("loading", "try"):  # No section, and one that needs a kernel: the whole page.
        page.goto("about:blank")
        page.goto(base + f"#view={view}")
        page.wait_for_selector("body[data-ready]")
        assert page.locator("#bench").is_visible() and not page.locator("#try").is_visible(), f"view={view} leaves something out"
    for view in ("bench", "step6", "race"):
        page.goto("about:blank")
        page.goto(base + f"#view={view}&a=cos/lin/cir")
        page.wait_for_selector("body[data-ready]")
        shown = page.evaluate("() => [...document.querySelectorAll('main > section')].filter((s) => s.offsetParent).map((s) => s.id)")
        assert shown == [view], shown
    page.get_by_role("button", name="Step", exact=True).click()
    until(page, "() => Race.runs().every((r) => r.at === 1)", "no race by itself")
    curve = {"question": "Draw", "x": [0, 0.5, 1], "answers": [{"name": "lin", "y": [1, 0.5, 0]}]}
    page.goto("about:blank")
    page.goto(base + "#view=guess&guess=" + urllib.parse.quote(json.dumps(curve)))
    handle = page.get_by_role("slider", name="at S 0.5")
    handle.press("ArrowUp")
    assert handle.get_attribute("aria-valuetext") == "0.80", f"a key does not draw: {handle.get_attribute('aria-valuetext')}"
    page.get_by_role("button", name="Show what is so").click()
    assert page.locator("#guess [role=slider]").count() == 0, "a curve can be moved after it is compared"
    page.goto("about:blank")
    page.goto(base + "#view=guess&guess=nothing")
    page.get_by_text("This guess cannot be read").wait_for()


def embeds(browser):
    """Every picture has an address of its own, at which it stands alone and alive; frames of a page share the program."""
    page = open_page(browser, base + "#a=cos-orth/lin-ms/cir&batch=6x4x3,0.7,2&triplet=0,60,-50", permissions=["clipboard-read", "clipboard-write"])
    for step in range(1, 9):
        page.locator(f"#step{step}").scroll_into_view_if_needed()
    until(page, "() => document.querySelector('#step4 .guess')", "step 4 asks for no guess first")
    pictures = page.evaluate("() => [...views].filter((v) => v.links && v.canvas.getClientRects().length).map((v) => v.scene())")
    assert len(pictures) == len(set(pictures)) == 29 and all("rule=cos-orth/lin-ms/cir&batch=6x4x3,0.7,2&triplet=0,60,-50" in p for p in pictures if "=step" not in p and "=race" not in p and "=start" not in p), pictures
    card = page.locator("#bench .cards > .matrix").first
    card.scroll_into_view_if_needed()
    card.locator(".view").hover()
    card.get_by_role("button", name="A link to this picture").click()
    got = []
    for name in ("Copy the link", "Copy an <iframe>"):
        card.get_by_role("button", name=name).click()
        page.wait_for_timeout(100)
        got.append(page.evaluate("() => navigator.clipboard.readText()"))
    link, frame = got[0], xml.etree.ElementTree.fromstring(got[1].replace('loading="lazy"', 'loading="lazy" ')).attrib
    assert link == base + "#view=M&rule=cos-orth/lin-ms/cir&batch=6x4x3,0.7,2&triplet=0,60,-50&embed" and frame["src"] == link and "gradient matrix" in frame["title"], got
    assert card.locator(".save a").get_attribute("href") == link
    page.goto("about:blank")
    for address, width, theme, want in ((link.split("#")[1], 1366, "light", "Bench.a.result.n === 24"), ("view=map&rule=cos/con/cos+sc1&embed", 390, "dark", "Bench.a.name === 'cos/con/cos+sc1' && Bench.a.pictures.diagram.values"),
                                        ("view=step4.pull-weights&embed", 390, "light", "[...views][0].picture.series.length === 4"), ("view=step3.pull-euc&steps=30&pair=euc&embed", 1366, "light", "document.querySelector('#step3 .readout').textContent.startsWith('After 30 steps') && [...views][0].picture.title === 'euc/euc/con' && /&steps=30&pair=euc&embed$/.test([...views][0].scene())"),
                                        ("view=learn.recall&rule=cos/con/con&learn-dim=8&learn-rate=0.1&embed", 1366, "dark", "Learn.view.width && Learn.dim === 8 && Learn.rate === 0.1 && Learn.view.scene().includes('learn-rate=0.1&learn-dim=8')")):
        page.emulate_media(color_scheme=theme)
        page.set_viewport_size({"width": width, "height": 560})
        page.goto("about:blank")
        page.goto(base + "#" + address)
        page.wait_for_selector("body[data-ready]")
        until(page, f"() => {want}", f"{address} does not show what it says")
        page.wait_for_timeout(150)
        seen = page.evaluate("""() => ({wide: document.documentElement.scrollWidth, high: document.documentElement.scrollHeight, canvas: [...document.querySelectorAll("canvas")].filter((c) => c.getClientRects().length).map((c) => c.clientWidth),
            chrome: [...document.querySelectorAll("header, footer, h2, .prose, .challenge, .guess, .side select")].filter((e) => e.getClientRects().length).length, text: document.querySelector(".shown").innerText, said: document.getElementById("loading").textContent})""")
        assert seen["wide"] <= width and seen["high"] <= 560 and len(seen["canvas"]) == 1 and seen["canvas"][0] > width - 60 and not seen["chrome"] and not seen["said"] and "What a loss does" in seen["text"], f"{address}: {seen}"
        if shots:
            page.screenshot(path=os.path.join(shots, f"embed-{address[5:10]}-{width}-{theme}.png"))
    page.get_by_role("button", name="Step", exact=True).click()
    until(page, "() => Bench.a.learn.at === 1", "a picture of a training does not train")
    for address, said in (("view=mapp&embed", "no view “mapp”; want view=map, M, sphere"), ("view=step2.much&embed", "step2 has no picture “much”; want one of directions, strength."), ("view=step6&tau=90&embed", "step6: tau is “90”; want 0 to 16."), ("view=step3&pair=lon&embed", "pair is “lon”; want con, euc, lin, sig."), ("view=step3&tau=1&embed", "“tau” is no field of its address; want one of view, embed, steps, pair."),
                          ("view=map&ruel=cos/lin/cir&rule=cos/much/cir&batch=9&embed", "“ruel” is no field of an address; want one of a, rule")):
        page.goto("about:blank")
        page.goto(base + "#" + address)
        page.get_by_text(said).wait_for()
    for said in ("batch=9 is not read; want classes x points x dimensions", 'no pair weight "much"; there are con'):
        page.get_by_text(said).wait_for()
    with open(os.path.join(folder, "lesson.html"), "w") as f:
        f.write("<body>" + "".join(f'<iframe src="index.html#view={view}&rule=cos/lin/cir&embed" width="480" height="560"></iframe>' for view in ("map", "sphere")))
    page.context.close()
    page = browser.new_context().new_page()
    sent.clear()
    page.goto(base + "lesson.html")
    for frame in page.frames[1:]:
        frame.wait_for_selector("body[data-ready]")
    assert len(page.frames) == 3 and sent.count("/main.wasm.gz") == 1, f"two frames load {sent}"
    page.context.close()


def stories(browser):
    """Three stories of the workbench; what each scene says is so there."""
    page = open_page(browser, base + "#story=euclid", viewport={"width": 1366, "height": 768})
    page.evaluate("() => { for (const d of document.querySelectorAll('#bench details')) d.open = false; document.getElementById('bench').scrollIntoView({behavior: 'instant'}); }")
    told, ends = {}, {"euclid": "euc/con/con", "relative": "cos/sig-ms/con", "mask": "cos/con/con"}
    for story, last in ends.items():
        if story == "mask":
            page.set_viewport_size({"width": 390, "height": 844})
            page.emulate_media(color_scheme="dark")
            page.evaluate("() => document.getElementById('bench').scrollIntoView({behavior: 'instant'})")
        page.evaluate("(s) => { if (location.hash !== s) location.hash = s; }", f"#story={story}")
        scene, count = 1, 0
        while True:
            until(page, f"() => Tour.story === '{story}.{scene}' && !Tour.text.textContent.includes('…') && !Tour.root.hidden", f"scene {scene} of {story} is not told")
            count = page.evaluate("() => STORIES[Tour.name].scenes.length")
            assert count <= 6
            state = page.evaluate("""() => ({sides: Bench.sides.map((s) => { const t = s.result.triplets, mean = (of) => [...Array(t.count).keys()].reduce((x, k) => x + of[k], 0) / t.count;
                return {name: s.name, at: s.result.at, sap: mean(t.sap), push: mean(t.pairNegative), pull: mean(t.pairPositive), silent: [...t.pairPositive].slice(0, t.count).filter((p) => p === 0).length, M: Math.max(...s.result.M.map(Math.abs))}; }),
                text: Tour.text.textContent, seen: (() => { const a = Tour.root.getBoundingClientRect(), b = Bench.a.cards.find((c) => c.style.order === "-1").querySelector("canvas").getBoundingClientRect(); return a.bottom <= innerHeight + 1 && a.right <= innerWidth && b.top >= 0 && b.bottom <= a.top + 1 && b.right <= innerWidth; })()})""")
            told[f"{story}.{scene}"] = state
            assert state["seen"], f"{story}.{scene}: the text and its picture are not in view together"
            if shots:
                page.screenshot(path=os.path.join(shots, f"story-{story}-{scene}.png"))
            if scene == count:
                break
            page.locator(".tour button.main").focus()
            page.keyboard.press(("Enter", "ArrowRight")[scene % 2])
            scene += 1
        assert page.locator(".tour button.main").is_disabled() and told[f"{story}.{count}"]["sides"][0]["name"].startswith(last), f"{story} ends elsewhere"
    side = lambda scene, key: [s[key] for s in told[scene]["sides"]]
    (cos, euc), (same, faded), (_, lin) = side("euclid.2", "sap"), side("euclid.3", "sap"), side("euclid.4", "sap")
    assert "0.44" in told["euclid.1"]["text"] and "0.97" in told["euclid.1"]["text"] and side("euclid.2", "at") == [50, 50] and lin < cos < euc and abs(same - faded) < 5e-4 and f"{euc:.3f}" in told["euclid.2"]["text"], told
    for scene, key, rises in (("relative.1", "push", 1.2), ("relative.2", "pull", 0), ("relative.3", "push", 1), ("relative.4", "push", 4), ("relative.5", "push", 0)):
        a, b = side(scene, key)
        assert (b > rises * a if rises else b < a) and f"{a:.2f}" in told[scene]["text"] and f"{b:.2f}" in told[scene]["text"], told[scene]
    assert side("relative.3", "push")[1] < 1.15 * side("relative.3", "push")[0]
    assert side("mask.2", "silent") == [15] and "15 of 32" in told["mask.2"]["text"] and side("mask.5", "silent") == [15, 30] and side("mask.6", "sap")[0] > side("mask.6", "sap")[1], told
    until(page, "() => location.hash.includes('story=mask.6')", "the address has no scene")
    address = page.evaluate("() => location.hash")
    page.get_by_role("button", name="End", exact=True).click()
    assert page.locator(".tour").is_hidden()
    until(page, "() => !location.hash.includes('story')", "the address keeps a story that has ended")
    page.evaluate("(hash) => { location.hash = hash; }", address)
    until(page, "() => Tour.story === 'mask.6' && !Tour.text.textContent.includes('…')", "an address does not lead to its scene")
    page.get_by_role("button", name="Back", exact=True).click()
    until(page, "() => Tour.story === 'mask.5'", "no way back")
    page.evaluate("() => { location.hash = '#story=much'; }")
    page.get_by_text("There is no story “much”; want one of euclid, relative, mask.").wait_for()
    assert page.locator(".tour h3").inner_text() == "Stories"
    page.context.close()


def accessible(browser):
    try:
        from axe_playwright_python.sync_playwright import Axe
    except ImportError:
        return "skipped: this Python has no axe-playwright-python"
    page = open_page(browser, base + "#a=cos/lin/cir&b=loss:ms")
    for step in range(1, 9):
        page.locator(f"#step{step}").scroll_into_view_if_needed()
        page.wait_for_timeout(60)
    page.locator(".save button").first.focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.textContent") == "PNG", "arrow keys do not reach the second way to save"
    stops, pictures = page.locator(".save button:not([tabindex='-1'])").count(), page.locator(".save").count()
    assert stops == pictures, f"{stops} stops of the Tab key to save {pictures} pictures"
    empty = page.locator("h1, h2, h3, h4").evaluate_all("all => all.filter((h) => !h.textContent.trim()).length")
    assert empty == 0, f"{empty} empty headings"
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        page.wait_for_timeout(100)
        found = Axe().run(page).response["violations"]
        assert not found, "; ".join(f"{v['id']}: {v['nodes'][0]['html'][:160]} {v['nodes'][0].get('failureSummary', '')[:200]}" for v in found)
    page.context.close()


def goldens(page):
    """Pictures at 16×16 averaged pixels: what a font changes is within the tolerance, a wrong picture is not."""
    page.set_viewport_size({"width": 1366, "height": 900})
    page.evaluate("() => { location.hash = '#a=cos-orth/lin-ms/cir?tau=4&batch=8x4x2,0.7,1&triplet=0,60,-50'; }")
    until(page, "() => Bench.a.name === 'cos-orth/lin-ms/cir?tau=4' && Bench.a.result.dim === 2", "a new address is not read")
    until(page, "() => Bench.a.numbers.arrows && !Bench.cards.hasAttribute('data-busy')", "no arrows")
    page.wait_for_timeout(100)
    seen = page.evaluate("""() => Object.fromEntries(KINDS.map((kind) => {
      const small = document.createElement('canvas'), from = Bench.a.views[kind].canvas;
      let w = from.width, h = from.height, image = from;
      while (w > 32) { // Halves, so that every pixel counts.
        const next = document.createElement('canvas');
        w = next.width = Math.max(w >> 1, 16); h = next.height = Math.max(h >> 1, 16);
        next.getContext('2d').drawImage(image, 0, 0, w, h);
        image = next;
      }
      small.width = small.height = 16;
      const c = small.getContext('2d');
      c.fillStyle = '#fff'; c.fillRect(0, 0, 16, 16);
      c.drawImage(image, 0, 0, 16, 16);
      return [kind, [...c.getImageData(0, 0, 16, 16).data].filter((_, i) => i % 4 < 3)];
    }))""")
    if write:
        with open(golden_path, "w") as f:
            json.dump(seen, f, separators=(",", ":"))
            f.write("\n")
    with open(golden_path) as f:
        want = json.load(f)
    for kind, values in want.items():
        off = [abs(a - b) for a, b in zip(values, seen[kind])]
        assert sum(off) / len(off) < 4 and sum(x > 60 for x in off) < len(off) * 0.02, f"{kind}: mean difference {sum(off) / len(off):.1f}, largest {max(off)}"


def timings(browser):
    move = """async () => {
      performance.clearMeasures();
      const s = document.querySelector('#bench input[name=tau]');
      for (let i = 0; i < 40; i++) { s.value = 1 + i % 50 / 10; s.dispatchEvent(new Event('input', {bubbles: true})); await new Promise((r) => setTimeout(r, 33)); }
      await new Promise((r) => setTimeout(r, 300));
      return performance.getEntriesByName('input to frame').map((e) => e.duration).sort((a, b) => a - b);
    }"""
    out, page = {}, open_page(browser, base + "#a=cos/lin/cir?tau=4")
    for batch, size in (("8x4x32,1,1", 32), ("16x4x64,1,1", 64)):
        page.evaluate(f"() => {{ location.hash = '#a=cos/lin/cir?tau=4&batch={batch}'; }}")
        until(page, f"() => Bench.a.result.n === {size} && Bench.a.ahead?.n === {size}", f"no batch of {size}, or no look ahead, which the worker is busy with")
        times = page.evaluate(move)
        assert len(times) > 10, f"{len(times)} pictures for 40 moves of a slider"
        out[f"slider to frame at B = {size}, ms"] = [round(times[int(q * (len(times) - 1))], 1) for q in (0.5, 0.95)]
    page.evaluate("() => { location.hash = '#a=cos/[1-Sap, San]/[max(0, San-Sap%2Bm), m=0.5]&batch=8x4x32,1,1'; }")
    until(page, "() => Bench.a.name.startsWith('cos/[') && Bench.a.result.n === 32", "no rule in formulas")
    unfold(page)
    page.evaluate("() => performance.clearMeasures()")
    field = page.locator("#bench input[name=triplet]").first
    field.press("End")
    field.press_sequentially("+San*0.0" + "1" * 30, delay=100)  # Each but two of the keys makes a formula.
    until(page, "() => performance.getEntriesByName('input to frame').length > 20", "pictures do not follow keys")
    times = page.evaluate("() => performance.getEntriesByName('input to frame').map((e) => e.duration).sort((a, b) => a - b)")
    out["key in a formula to frame, ms"] = [round(times[int(q * (len(times) - 1))], 1) for q in (0.5, 0.95)]
    for batch, size in (("8x6x3,0.7,1", 48), ("16x16x3,0.7,1", 256)):
        page.evaluate(f"() => {{ location.hash = '#a=cos/con/con&batch={batch}'; }}")
        until(page, f"() => Bench.a.result.n === {size}", f"no batch of {size}")
        page.wait_for_timeout(200)
        out[f"flow of {size} points, frames/s"] = round(page.evaluate("""async () => {
          const p = Bench.a.player;
          Bench.flow(true);
          await new Promise((r) => setTimeout(r, 800));
          const from = p.steps, t = performance.now();
          await new Promise((r) => setTimeout(r, 1200));
          return 1000 * (p.steps - from) / (performance.now() - t);
        }"""), 1)
    page.context.close()
    notes.update(out)


with sync_playwright() as p:
    browser = p.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
    began = time.monotonic()
    first = open_page(browser, base, permissions=["clipboard-read", "clipboard-write"])
    notes["ready, s"] = round(time.monotonic() - began, 2)
    groups = {
        "one": [("story", lambda: story(first)), ("controls", lambda: controls(first)), ("every loss", lambda: every_loss(first)),
                ("linked pictures", lambda: linked(first)), ("flow and comparison", lambda: flow(first)), ("link", lambda: link(browser, first)),
                ("saving", lambda: saving(first)), ("copying", lambda: copying(first)), ("sizes", lambda: sizes(browser)),
                ("goldens", lambda: goldens(first)), ("frames", lambda: frames(first)), ("pictures alone", lambda: embeds(browser)),
                ("stories", lambda: stories(browser))] + ([("single file", lambda: alone(browser))] if single else []),
        "other": [("controls and pictures", lambda: together(browser)), ("one screen", lambda: one_screen(browser)), ("your data", lambda: own_data(browser)),
                  ("learning", lambda: learning(browser)), ("race", lambda: race(browser)), ("motion and theme", lambda: motion(browser)),
                  ("addresses", lambda: addresses(browser)), ("accessibility", lambda: accessible(browser))],
        "timed": [("timings", lambda: timings(browser))],
    }
    checks = groups[group]
    only = os.environ.get("ONLY", "")
    for name, check in checks:
        if only and name not in only.split(","):
            continue
        problem, note, start = "", "", time.monotonic()
        try:
            note = check() or ""
        except Exception as e:  # One check's failure does not hide the others.
            problem = f"{type(e).__name__}: {e}"
        if errors:
            problem += " errors of scripts: " + "; ".join(errors)
            errors.clear()
        print(json.dumps({"check": name, "problem": problem, "note": note, "seconds": round(time.monotonic() - start, 1)}), flush=True)
    print(json.dumps({"check": "requests to other hosts", "problem": "; ".join(outside), "note": ""}))
    print(json.dumps({"check": "notes", "problem": "", "note": json.dumps(notes, ensure_ascii=False)}), flush=True)
    browser.close()
