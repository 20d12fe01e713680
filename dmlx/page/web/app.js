"use strict";
// Starts the page: the theme, the worker, the story, and the workbench.

// stayAt goes to the place of an address, again each time that the pictures above it grow, until the reader moves: at once, or when the page has scrolled there.
function stayAt(id, scrolling) {
  const main = document.querySelector("main"), at = () => document.getElementById(id)?.getBoundingClientRect().top, moved = new AbortController(), {signal} = moved;
  let place, height;
  const grown = new ResizeObserver(() => {
    document.getElementById(id)?.scrollIntoView({behavior: "instant"});
    [place, height] = [at(), main.offsetHeight];
  });
  signal.addEventListener("abort", () => grown.disconnect());
  for (const type of ["wheel", "touchmove", "keydown", "pointerdown"]) addEventListener(type, () => moved.abort(), {capture: true, signal});
  addEventListener("scroll", () => { if (main.offsetHeight === height && Math.abs(at() - place) > 1) moved.abort(); }, {signal});
  if (scrolling) addEventListener("scrollend", () => grown.observe(main), {once: true, signal});
  else grown.observe(main);
}

// alone shows one picture with its caption, and what moves it.
function alone(part, name) {
  const of = [...views].filter((v) => v.place === part && v.canvas.getClientRects().length && v.links), called = (v) => fields(v.scene()).get("view").split(".").pop(), view = of.find((v) => called(v) === name);
  if (!view) throw new Error(`${part} has no picture “${name}”; want one of ${of.map(called).join(", ")}.`);
  const section = view.root.closest("section"), card = view.root.closest(".card, figure"), title = section.querySelector("h1, h2").textContent;
  const about = el("p.about", {}, part === "bench" ? "" : `${title} · `, el("a", {href: part === "bench" ? Bench.link("") : `#${section.id}`, target: "_blank"}, document.title));
  section.append(about);
  const moving = part === "bench" ? ["swarm", "recall"].includes(view.name) ? ".flow" : [] : "figure .controls, #learn .controls, #race .controls";
  view.alone([about, ...section.querySelectorAll(["#loading", ".problem", ".equation"].concat(moving)), ...card.querySelectorAll(".of, .readout, figcaption"), ...(view === Race.view ? [Race.line] : [])]);
}

(async () => {
  const dark = document.getElementById("theme"), prefers = matchMedia("(prefers-color-scheme: dark)");
  const kept = (() => { try { return localStorage.getItem("dmlx-theme"); } catch { return null; } })(); // A frame may have no storage.
  const apply = (on) => {
    document.documentElement.toggleAttribute("data-dark", on);
    dark.textContent = dark.title = on ? "Light theme" : "Dark theme"; // What it does, not what is there.
    Theme.forget();
    for (const view of views) view.draw();
  };
  apply(kept ? kept === "dark" : prefers.matches);
  prefers.addEventListener("change", () => apply(prefers.matches));
  dark.addEventListener("click", () => {
    const on = !document.documentElement.hasAttribute("data-dark");
    try { localStorage.setItem("dmlx-theme", on ? "dark" : "light"); } catch { /* It lasts until the page is closed. */ }
    apply(on);
  });

  // A frame shows one part: #view=bench, #view=learn, which is the workbench's training alone, #view=step3, #view=race, or #view=guess; or one picture: #view=map&embed,
  // #view=step2.strength&embed. A frame without an address has it in <body data-state="#view=bench&a=…">.
  const state = location.hash || document.body.dataset.state || "", q = fields(state), view = q.get("view") || "", embed = q.has("embed");
  const [part, picture] = Object.hasOwn(SCENES, view) ? ["bench", view] : view.split("."), bench = ["bench", "learn"].includes(part);
  const shown = /^\w+$/.test(part) && document.querySelector(`main > section#${bench ? "bench" : part}`), loading = document.getElementById("loading");
  if (shown || embed) {
    document.body.dataset.view = part;
    document.body.toggleAttribute("data-picture", embed && picture !== undefined);
    Bench.view = view;
    Bench.embed = embed;
    if (shown) shown.hidden = false;
    for (const e of shown ? [shown] : [loading, document.querySelector("main")]) e.classList.add("shown");
    (shown || document.querySelector("main")).prepend(loading);
  }
  const fail = (text) => {
    loading.textContent = text;
    loading.classList.add("problem");
    document.body.toggleAttribute("data-failed", embed);
  };

  const dots = [...document.querySelectorAll(".dots a")];
  for (const a of dots) a.setAttribute("aria-label", a.title);
  const seen = new IntersectionObserver((entries) => {
    for (const e of entries) {
      if (!e.isIntersecting) continue;
      for (const a of dots) a.toggleAttribute("aria-current", a.hash === `#${e.target.id}`);
    }
  }, {rootMargin: "-45% 0px -50% 0px"});
  for (const section of document.querySelectorAll("main > section")) seen.observe(section);

  if (part === "guess") { // It computes nothing.
    guessInFrame(shown, state);
    addEventListener("DOMContentLoaded", () => { document.body.dataset.ready = "yes"; }); // When the frame's document can be told.
    return;
  }
  if (embed && !shown) return fail(`There is no view “${view}”; want view=${[...Object.keys(SCENES), "bench", "learn", "race", "start", "step1"].join(", ")} … step8, or a picture of one, such as view=step2.strength.`);
  const linked = ["a", "rule", "batch", "story"].some((name) => q.has(name));
  if (!shown) {
    stayAt(linked ? q.get("at") || "bench" : location.hash.slice(1));
    addEventListener("click", ({target}) => {
      const to = target.closest('a[href^="#"]:not([target])')?.hash;
      if (!to) return;
      stayAt(to.includes("=") ? "bench" : to.slice(1), true);
      if (to.includes("=") || !Bench.touched) return;
      Object.assign(Bench, {at: to.slice(1), written: ""}); // The address keeps the workbench.
      Bench.remember();
    });
  }
  loading.textContent = "The library is loading …";
  try {
    const engine = await DMLX.start(), about = await engine.call("describe");
    loading.textContent = "";
    Story.begin(engine);
    if (!shown || bench) {
      await Bench.begin(engine, about, state);
      Learn.begin(engine);
    }
    if (!shown || part === "race") Race.begin(engine, about);
    for (const type of ["input", "change", "click", "pointerdown", "keydown", "drop"]) {
      document.getElementById("bench").addEventListener(type, () => { Object.assign(Bench, {touched: true, at: ""}); }, {capture: true});
    }
    if (shown && part !== "bench") setControls(part, q);
    if (embed && picture !== undefined) alone(part, picture);
    document.body.dataset.ready = "yes";
  } catch (error) {
    fail(error.message);
  }
})();
