"use strict";
// Starts the page: the theme, the worker, the story, and the workbench.

// stayAt goes to the place of an address, again each time that the pictures above it grow, until the reader scrolls.
function stayAt(id) {
  const main = document.querySelector("main"), at = () => document.getElementById(id)?.getBoundingClientRect().top;
  let place, height;
  const grown = new ResizeObserver(() => {
    document.getElementById(id)?.scrollIntoView({behavior: "instant"});
    [place, height] = [at(), main.offsetHeight];
  });
  grown.observe(main);
  const end = () => grown.disconnect();
  for (const type of ["wheel", "touchmove", "keydown", "pointerdown"]) addEventListener(type, end, {once: true, capture: true});
  addEventListener("scroll", () => { if (main.offsetHeight === height && Math.abs(at() - place) > 1) end(); });
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

  // A frame shows one part: #view=bench, #view=learn, which is the workbench's training alone, #view=step3, #view=race, or #view=guess. A frame without an address has it in <body data-state="#view=bench&a=…">.
  const state = location.hash || document.body.dataset.state || "";
  const part = /[#&]view=(\w+)/.exec(state)?.[1], bench = ["bench", "learn"].includes(part), shown = part && document.querySelector(`main > section#${bench ? "bench" : part}`);
  if (shown) {
    document.body.dataset.view = part;
    shown.hidden = false;
    shown.classList.add("shown");
    Bench.view = part;
    shown.prepend(document.getElementById("loading"));
  }

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
  const linked = /[#&](a|batch)=/.test(state);
  if (!shown) stayAt(linked ? "bench" : location.hash.slice(1));
  const loading = document.getElementById("loading");
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
      document.getElementById("bench").addEventListener(type, () => { Bench.touched = true; }, {capture: true});
    }
    document.body.dataset.ready = "yes";
  } catch (error) {
    loading.textContent = error.message;
    loading.classList.add("problem");
  }
})();
