// Curves, bars and maps as SVG and canvas, in the colours and dashes of the reports.

import { count, h, number, s, sized } from "./dom.js";

const DASHES = ["", "7 4", "2 3", "7 3 2 3", "11 4", "11 3 2 3"];
const MARKS = ["circle", "square", "diamond", "triangle"];
const MARGIN = { left: 46, right: 10, top: 10, bottom: 40 };

const colour = (style) => `var(--series-${style % 8})`;
const dash = (style) => DASHES[style % DASHES.length];

function mark(style, x, y) {
  const properties = { fill: colour(style), class: "mark" };
  const shape = MARKS[style % MARKS.length];
  if (shape === "circle") return s("circle", { ...properties, cx: x, cy: y, r: 3 });
  const points = {
    square: [
      [-2.8, -2.8],
      [2.8, -2.8],
      [2.8, 2.8],
      [-2.8, 2.8],
    ],
    diamond: [
      [0, -4],
      [4, 0],
      [0, 4],
      [-4, 0],
    ],
    triangle: [
      [0, -4],
      [3.8, 3],
      [-3.8, 3],
    ],
  }[shape];
  return s("polygon", {
    ...properties,
    points: points.map(([dx, dy]) => `${x + dx},${y + dy}`).join(" "),
  });
}

// whole: no tick between two tokens, or two steps.
export function ticks(low, high, most = 5, whole = false) {
  const span = high - low || 1;
  const raw = whole ? Math.max(1, span / most) : span / most;
  const power = 10 ** Math.floor(Math.log10(raw));
  const steps = whole ? [1, 2, 5, 10] : [1, 2, 2.5, 5, 10];
  const step = steps.map((one) => one * power).find((one) => one >= raw * 0.999);
  const found = [];
  for (let at = Math.ceil(low / step - 1e-9) * step; at <= high + step * 1e-6; at += step)
    found.push(Math.abs(at) < step * 1e-6 ? 0 : at);
  return found;
}

export function legend(entries) {
  return h(
    "ul",
    { class: "legend" },
    entries.map(({ name, style, reference }) =>
      h(
        "li",
        {},
        s(
          "svg",
          { width: 26, height: 10, "aria-hidden": "true" },
          s("line", {
            x1: 0,
            x2: 26,
            y1: 5,
            y2: 5,
            class: reference ? "reference" : "curve",
            stroke: reference ? null : colour(style),
            "stroke-dasharray": reference ? null : dash(style),
          }),
          reference ? null : mark(style, 13, 5),
        ),
        name,
      ),
    ),
  );
}

function path(points) {
  return points
    .map(([x, y], place) => `${place ? "L" : "M"}${x.toFixed(1)},${y.toFixed(1)}`)
    .join("");
}

// options: series [{name, x, y, low, high, style}], reference {name, y}, xLabels, xTitle, yTitle,
// range, height, label, named (a legend for one series too); x is whole: tokens or steps
export function lines(options) {
  const shown = options.series.map((one, place) => ({ style: place, ...one }));
  const xs = shown.flatMap((one) => one.x);
  const ys = shown.flatMap((one) => [...one.y, ...(one.low ?? []), ...(one.high ?? [])]);
  const reference = options.reference;
  if (reference) ys.push(...reference.y);
  const [low, high] = options.range ?? [Math.min(0, ...ys), Math.max(...ys, 1e-9)];
  const [left, right] = [Math.min(...xs), Math.max(...xs)];
  const height = options.height ?? 210;
  const draw = (width) => {
    const inner = { w: width - MARGIN.left - MARGIN.right, h: height - MARGIN.top - MARGIN.bottom };
    const x = (value) =>
      MARGIN.left + (right > left ? (value - left) / (right - left) : 0.5) * inner.w;
    const y = (value) => MARGIN.top + (1 - (value - low) / (high - low || 1)) * inner.h;
    const base = MARGIN.top + inner.h;
    const grid = ticks(low, high, 4).map((at) => [
      s("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: y(at), y2: y(at) }),
      s(
        "text",
        { class: "tick", x: MARGIN.left - 7, y: y(at) + 4, "text-anchor": "end" },
        number(at),
      ),
    ]);
    const places = options.xLabels
      ? options.xLabels.map((label, place) => [place, label])
      : ticks(left, right, Math.max(3, Math.floor(inner.w / 80)), true).map((at) => [
          at,
          count(at),
        ]);
    // Labels that would touch each other are left out, the last one stays.
    const widest = Math.max(...places.map(([, label]) => label.length)) * 7 + 10;
    const every = Math.max(1, Math.ceil((places.length * widest) / inner.w));
    const below = places
      .filter((one, place) => place % every === 0)
      .map(([at, label]) =>
        s(
          "text",
          {
            class: "tick",
            x: Math.min(x(at), width - label.length * 3.2),
            y: base + 17,
            "text-anchor": "middle",
          },
          label,
        ),
      );
    const bands = shown
      .filter((one) => one.low)
      .map((one) => {
        const there = one.x.map((at, place) => [x(at), y(one.high[place])]);
        const back = one.x.map((at, place) => [x(at), y(one.low[place])]).reverse();
        return s("path", {
          class: "band",
          d: `${path([...there, ...back])}Z`,
          fill: colour(one.style),
        });
      });
    const curves = shown.map((one) => {
      const points = one.x.map((at, place) => [x(at), y(one.y[place])]);
      const marks = points.length > 40 ? [] : points.map(([px, py]) => mark(one.style, px, py));
      return s(
        "g",
        {},
        s("path", {
          class: "curve",
          d: path(points),
          stroke: colour(one.style),
          "stroke-dasharray": dash(one.style),
        }),
        marks,
      );
    });
    const level = reference
      ? s("path", {
          class: "reference",
          d: path(reference.y.map((value, place) => [x(shown[0].x[place]), y(value)])),
        })
      : null;
    return s(
      "svg",
      { width, height, role: "img", "aria-label": options.label },
      grid,
      s("line", { class: "axis", x1: MARGIN.left, x2: width - MARGIN.right, y1: base, y2: base }),
      below,
      bands,
      level,
      curves,
      s(
        "text",
        { class: "title", x: MARGIN.left + inner.w / 2, y: height - 4, "text-anchor": "middle" },
        options.xTitle,
      ),
    );
  };
  const entries = shown.map(({ name, style }) => ({ name, style }));
  if (reference) entries.push({ name: reference.name, reference: true });
  return h(
    "figure",
    { class: "chart" },
    entries.length > 1 || options.named ? legend(entries) : null,
    options.yTitle ? h("p", { class: "axis-title" }, options.yTitle) : null,
    sized({ class: "drawing" }, draw),
  );
}

// Bars below each other, each {name, value, note, strong}; ``most`` fills the width.
export function bars(entries, label, most = Math.max(...entries.map((one) => one.value), 1e-12)) {
  return h(
    "ul",
    { class: "bars", "aria-label": label },
    entries.map((one) =>
      h(
        "li",
        { class: one.strong ? "strong" : null },
        h("span", { class: "name" }, one.name),
        h(
          "span",
          { class: "track" },
          h("span", { class: "fill", "--w": `${(100 * one.value) / most}%` }),
        ),
        h("span", { class: "value" }, one.note),
      ),
    ),
  );
}

// The same for entries of a document memory, each {entry, value}.
export function entryBars(entries, label) {
  const named = ({ entry, value }) => ({ name: `entry ${entry}`, value, note: number(value) });
  return bars(entries.map(named), label);
}
