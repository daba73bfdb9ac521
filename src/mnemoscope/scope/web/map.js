// Matrices as pictures: one pixel a value, from the page's own ramps of colour.

import { h } from "./dom.js";

const drawn = new Set();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const one of drawn) {
    if (one.canvas.isConnected) one.paint();
    else drawn.delete(one);
  }
});

function ramp(name) {
  const style = getComputedStyle(document.documentElement);
  return [0, 1, 2, 3, 4].map((place) => {
    const text = style.getPropertyValue(`--${name}-${place}`).trim();
    return [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
  });
}

// matrix {values, shape [rows, columns]}; range [low, high]; split: two colours part at its middle.
export function map(matrix, label, range, { split = false, height = null } = {}) {
  const [rows, columns] = matrix.shape;
  const canvas = h("canvas", {
    class: "map",
    width: columns,
    height: rows,
    role: "img",
    "aria-label": label,
  });
  if (height) canvas.style.height = `${height}px`;
  const paint = () => {
    const colours = ramp(split ? "split" : "ramp");
    const context = canvas.getContext("2d");
    const image = context.createImageData(columns, rows);
    const [low, high] = range;
    matrix.values.forEach((value, place) => {
      const share = Math.min(1, Math.max(0, (value - low) / (high - low || 1))) * 4;
      const left = Math.min(3, Math.floor(share));
      for (let part = 0; part < 3; part += 1) {
        const [a, b] = [colours[left][part], colours[left + 1][part]];
        image.data[place * 4 + part] = a + (b - a) * (share - left);
      }
      image.data[place * 4 + 3] = 255;
    });
    context.putImageData(image, 0, 0);
  };
  paint();
  drawn.add({ canvas, paint });
  return canvas;
}

// What the colours of a map mean.
export function key(range, words, split = false) {
  const format = (value) => String(Number(value.toPrecision(2)));
  return h(
    "p",
    { class: "key" },
    h("span", {}, format(range[0])),
    h("span", { class: split ? "ramp split" : "ramp", "aria-hidden": "true" }),
    h("span", {}, format(range[1])),
    h("span", { class: "quiet" }, words),
  );
}
