(element, columns) => {
  const start = (tries) => { // This output may run before it is on the page, and before the table.
    const table = element.closest(".jp-OutputArea-child")?.previousElementSibling?.querySelector("table");
    if (!table) return tries && setTimeout(start, 100, tries - 1);
    const old = table.parentElement.querySelector("[data-filter]"); // A page may run its scripts twice.
    if (old) old.remove();
    const rows = [...table.tBodies[0].rows];
    const bar = document.createElement("div");
    bar.dataset.filter = "";
    bar.style.cssText = "position:sticky;top:0;left:0;display:flex;flex-wrap:wrap;gap:8px;align-items:center;" +
      "padding:6px 0;background:var(--jp-layout-color0,Canvas)";
    const look = "font:inherit;color:inherit;background:transparent;border:1px solid currentColor;padding:2px 4px";
    const chosen = columns.map(({ column, label }) => {
      const choice = document.createElement("select");
      choice.setAttribute("aria-label", label);
      choice.style.cssText = look;
      const values = [...new Set(rows.map((row) => row.cells[column].textContent))];
      for (const [text, value] of [[label + ": all", ""], ...values.map((v) => [v, v])]) {
        const option = new Option(text, value);
        option.style.cssText = "color:#000;background:#fff";
        choice.add(option);
      }
      bar.append(choice);
      return [column, choice];
    });
    const words = document.createElement("input");
    words.type = "search";
    words.placeholder = "words";
    words.setAttribute("aria-label", "words in a row");
    words.style.cssText = look;
    words.addEventListener("keydown", (e) => e.ctrlKey || e.metaKey || e.stopPropagation()); // No shortcuts of the page.
    const count = document.createElement("span");
    count.setAttribute("role", "status");
    bar.append(words, count);
    const filter = () => {
      const wanted = words.value.toLowerCase().split(/\s+/);
      let shown = 0;
      for (const row of rows) {
        const text = row.textContent.toLowerCase();
        const is = wanted.every((w) => text.includes(w)) &&
          chosen.every(([column, c]) => !c.value || row.cells[column].textContent === c.value);
        row.style.display = is ? "" : "none";
        if (is) shown++;
      }
      count.textContent = `${shown} of ${rows.length} rows`;
    };
    bar.addEventListener("input", filter);
    table.before(bar);
    filter();
  };
  start(50);
}
