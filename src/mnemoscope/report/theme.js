"use strict";

// Draws every figure of the page and keeps its colours in step with the reader's: light or dark
// on the screen, always light on paper and in saved files.
(() => {
  const parse = (id) => JSON.parse(document.getElementById(id).textContent);
  const swap = parse("dark-colours");
  const night = matchMedia("(prefers-color-scheme: dark)");
  const touch = matchMedia("(pointer: coarse)");
  // Fits between the margins of A4 and of US Letter.
  const PRINT_WIDTH = 640;

  // Colours stand in keys such as color, fillcolor, colorway and colorscale, at any depth.
  function darken(value, coloured) {
    if (typeof value === "string") return (coloured && swap[value]) || value;
    if (Array.isArray(value)) return value.map((item) => darken(item, coloured));
    if (value === null || typeof value !== "object") return value;
    const result = {};
    for (const [key, item] of Object.entries(value)) {
      result[key] = darken(item, /color/.test(key));
    }
    return result;
  }

  function save(node, format) {
    const figure = parse(`data-${node.dataset.figure}`);
    const layout = { ...figure.layout, paper_bgcolor: "#ffffff", plot_bgcolor: "#ffffff" };
    const size = { width: 800, height: node.clientHeight, scale: format === "png" ? 2 : 1 };
    return Plotly.downloadImage(
      { data: figure.data, layout },
      { format, filename: node.dataset.figure, ...size },
    );
  }

  const button = (format, icon) => ({
    name: `save-${format}`,
    title: `Save as ${format.toUpperCase()}`,
    icon,
    click: (node) => save(node, format),
  });

  const config = {
    displaylogo: false,
    responsive: true,
    modeBarButtons: [
      ["zoom2d", "pan2d", "resetScale2d"],
      [button("svg", Plotly.Icons.disk), button("png", Plotly.Icons.camera)],
    ],
  };

  function draw(node, dark, width) {
    // Plotly writes into what it is given, so each drawing starts from the page's own text.
    const source = parse(`data-${node.dataset.figure}`);
    const { data, layout, frames } = dark ? darken(source, false) : source;
    // Keeps zoom and hidden series when only the colours change.
    layout.uirevision = "same";
    layout.width = width || node.clientWidth;
    // A finger that drags over a figure means to scroll the page.
    if (touch.matches) layout.dragmode = false;
    Plotly.react(node, { data, layout, frames, config });
    // A width holds for this drawing only; from then on the figure follows the window.
    delete node.layout.width;
  }

  const drawAll = (dark, width) => {
    for (const node of document.querySelectorAll(".plot")) draw(node, dark, width);
  };

  drawAll(night.matches);
  night.addEventListener("change", () => drawAll(night.matches));
  addEventListener("beforeprint", () => drawAll(false, PRINT_WIDTH));
  addEventListener("afterprint", () => drawAll(night.matches));
})();
