(element, awake) => {
  const start = (tries) => { // This output may run before it is on the page, and before the picture.
    const still = element.closest(".jp-OutputArea-child")?.previousElementSibling;
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
