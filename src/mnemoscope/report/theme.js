"use strict";

// Draws every figure of the page and keeps its colours in step with the reader's: light or dark
// on the screen, always light on paper and in saved files.
(() => {
  const parse = (id) => JSON.parse(document.getElementById(id).textContent);
  const swap = parse("dark-colours");
  const night = matchMedia("(prefers-color-scheme: dark)");
  const touch = matchMedia("(pointer: coarse)");
  const wide = matchMedia("(min-width: 70rem)");
  // Fits between the margins of A4 and of US Letter.
  const PRINT_WIDTH = 640;
  // A figure is not made lower than this, however low the window is.
  const LOWEST = 300;

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

  // The figure of a finding ends, with its caption, where the window does; a sheet of several keeps
  // its height, which its titles need.
  function heightOf(node, layout) {
    const own = parseFloat((node.dataset.height ||= node.style.height));
    if (!wide.matches || layout.xaxis2 || !node.closest(".finding")) return own;
    const caption = node.nextElementSibling.offsetHeight;
    const top = node.getBoundingClientRect().top + scrollY;
    return Math.min(own, Math.max(LOWEST, innerHeight - top - caption - 24));
  }

  // Names are escaped for plotly; here they are written as text.
  const plain = (text) => new DOMParser().parseFromString(text, "text/html").body.textContent;
  const digits = (value, count) => String(Number(Number(value).toPrecision(count)));

  function say(box, node, points) {
    const { xaxis, x } = points[0];
    const tick = (xaxis.tickvals || []).indexOf(x);
    // The panels of a sheet share one title.
    const title = node.layout.meta?.x_title || node.layout[xaxis._name].title.text;
    const at = tick < 0 ? digits(x, 7) : xaxis.ticktext[tick];
    const ordered = [...points].sort((a, b) => a.curveNumber - b.curveNumber);
    const rows = ordered.map(({ fullData, customdata, y }) => {
      const value = customdata
        ? `${digits(y, 4)} (${digits(customdata[0], 4)} to ${digits(customdata[1], 4)})`
        : digits(y, 7);
      return [fullData.line.color, `${plain(fullData.name)}: ${value}`];
    });
    box.replaceChildren(
      ...[["", plain(title ? `${title}: ${at}` : at)], ...rows].map(([colour, text]) => {
        const line = document.createElement("p");
        line.style.color = colour;
        line.append(Object.assign(document.createElement("span"), { textContent: text }));
        return line;
      }),
    );
  }

  // To the right of the figure where the window has room, else below the axes.
  function lay(box, node, { xaxis, yaxis, x }) {
    box.classList.remove("below");
    const free = document.documentElement.clientWidth - node.getBoundingClientRect().right;
    const beside = free > box.offsetWidth + 8;
    box.classList.toggle("below", !beside);
    const middle = xaxis._offset + xaxis.d2p(x) - box.offsetWidth / 2;
    const last = node.offsetWidth - box.offsetWidth;
    const left = beside ? node.offsetWidth + 4 : Math.max(0, Math.min(middle, last));
    const top = beside ? yaxis._offset : yaxis._offset + yaxis._length + 24;
    box.style.left = `${node.offsetLeft + left}px`;
    box.style.top = `${node.offsetTop + top}px`;
  }

  function readOut(node) {
    const box = document.createElement("div");
    box.className = "readout";
    box.hidden = true;
    node.parentElement.append(box);
    node.on("plotly_hover", ({ points }) => {
      if (!node.classList.contains("read-out")) return;
      say(box, node, points);
      box.hidden = false;
      lay(box, node, points[0]);
    });
    node.on("plotly_unhover", () => { box.hidden = true; });
  }

  function draw(node, dark, width) {
    // Plotly writes into what it is given, so each drawing starts from the page's own text.
    const source = parse(`data-${node.dataset.figure}`);
    const { data, layout } = dark ? darken(source, false) : source;
    // Keeps zoom and hidden series when only the colours change.
    layout.uirevision = "same";
    layout.width = width || node.clientWidth;
    layout.height = width ? parseFloat(node.dataset.height) : heightOf(node, layout);
    node.style.height = `${layout.height}px`;
    // A finger that drags over a figure means to scroll the page.
    if (touch.matches) layout.dragmode = false;
    node.classList.toggle("read-out", layout.hovermode === "x unified" || Boolean(layout.xaxis2));
    Plotly.react(node, { data, layout, config });
    // A width holds for this drawing only; from then on the figure follows the window.
    delete node.layout.width;
  }

  const drawAll = (dark, width) => {
    for (const node of document.querySelectorAll(".plot")) draw(node, dark, width);
  };

  drawAll(night.matches);
  for (const node of document.querySelectorAll(".plot")) readOut(node);
  night.addEventListener("change", () => drawAll(night.matches));
  addEventListener("beforeprint", () => drawAll(false, PRINT_WIDTH));
  addEventListener("afterprint", () => drawAll(night.matches));
})();
