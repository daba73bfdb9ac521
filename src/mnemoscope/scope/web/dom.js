// Elements from data. Text goes in as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name.startsWith("--")) node.style.setProperty(name, value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(3).filter((child) => child !== null && child !== undefined));
  return node;
}

export function h(tag, properties = {}, ...children) {
  return fill(document.createElement(tag), properties, children);
}

export function s(tag, properties = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

// Draws into a node of its own width, and again whenever that width changes.
export function sized(properties, draw) {
  const node = h("div", properties);
  let width = 0;
  new ResizeObserver(() => {
    const now = Math.floor(node.clientWidth);
    if (now === width || now === 0) return;
    width = now;
    node.replaceChildren(draw(width));
  }).observe(node);
  return node;
}

export function bytes(count) {
  if (count < 1024) return `${count} B`;
  const units = ["KiB", "MiB", "GiB"];
  let value = count / 1024;
  let unit = 0;
  while (value >= 1024 && unit < 2) {
    value /= 1024;
    unit += 1;
  }
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

export function count(number) {
  if (number >= 1e6) return `${(number / 1e6).toFixed(number < 1e7 ? 1 : 0)} M`;
  return number >= 1e4 ? `${Math.round(number / 1e3)} k` : String(number);
}

export function number(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1000 || size < 0.001) return value.toPrecision(3);
  return String(Number(value.toPrecision(3)));
}

export const percent = (share) => `${number(100 * share)} %`;

// A token in quotation marks; one of white space alone as a program would write it.
export function quoted(text) {
  return text.trim() === "" ? JSON.stringify(text) : `“${text.trim()}”`;
}

// What a packed array held: values, and its shape.
export function unpack(packed) {
  const raw = atob(packed.data);
  const values = new Float32Array(raw.length);
  const step = (packed.high - packed.low) / 255;
  for (let i = 0; i < raw.length; i += 1) values[i] = packed.low + raw.charCodeAt(i) * step;
  return { values, shape: packed.shape, low: packed.low, high: packed.high };
}

// Shares travel as their roots.
export function unpackShares(packed) {
  const found = unpack(packed);
  for (let i = 0; i < found.values.length; i += 1) found.values[i] *= found.values[i];
  return found;
}
