(element, awake) => {
  const still = element.closest(".jp-OutputArea-child")?.previousElementSibling;
  const start = (tries) => { // The picture may be drawn after this output.
    const picture = still?.querySelector("img");
    if (!picture) return tries && setTimeout(start, 100, tries - 1);
    const root = document.createElement("div");
    root.dataset.map = "";
    root.tabIndex = 0;
    root.style.cssText = "position:relative;display:inline-block;max-width:100%";
    root.append(picture.cloneNode());
    element.append(root);
    still.style.display = "none";
    awake(root);
  };
  start(50);
}
