// The signal of an ∞-former: where heads attend, how tall it is, and what attention made sticky.

import { legend, ticks } from "./chart.js";
import { h, number, s, sized } from "./dom.js";

const MARGIN = { left: 46, right: 10 };
const TALL = { density: 120, sticky: 44, gap: 16, foot: 40, top: 10 };

const path = (points) =>
  points.map(([x, y], place) => `${place ? "L" : "M"}${x.toFixed(1)},${y.toFixed(1)}`).join("");

// Where in [0, 1] a token stands, or null when it is not in the signal.
function standing(ages, age) {
  if (!ages.length || age > ages[0] + 1 || age < ages[ages.length - 1] - 1) return null;
  let place = ages.findIndex((one) => one <= age);
  if (place < 0) place = ages.length - 1;
  return (place + 0.5) / ages.length;
}

function draw(one, width) {
  const inner = width - MARGIN.left - MARGIN.right;
  const x = (share) => MARGIN.left + share * inner;
  const points = one.height.length;
  const at = (place) => x((place + 0.5) / points);
  const mean = one.height.map(
    (_, place) => one.heads.reduce((sum, head) => sum + head[place], 0) / one.heads.length,
  );
  const most = Math.max(...one.heads.flat(), 1e-9);
  const base = TALL.top + TALL.density;
  const y = (value) => base - (value / most) * TALL.density;
  const tallest = Math.max(...one.height, 1e-9);
  const shape = one.height.map((value, place) => [
    at(place),
    base - (value / tallest) * TALL.density,
  ]);
  const grid = ticks(0, most, 3).map((value) => [
    s("line", {
      class: "grid",
      x1: MARGIN.left,
      x2: width - MARGIN.right,
      y1: y(value),
      y2: y(value),
    }),
    s(
      "text",
      { class: "tick", x: MARGIN.left - 7, y: y(value) + 4, "text-anchor": "end" },
      number(value),
    ),
  ]);
  const area = [[x(0), base], ...mean.map((value, place) => [at(place), y(value)]), [x(1), base]];
  const bins = one.sticky;
  const mass = Math.max(...bins, 1e-9);
  const floor = base + TALL.gap + TALL.sticky;
  const blocks = bins.map((value, place) =>
    s("rect", {
      class: "sticky",
      x: x(place / bins.length),
      width: Math.max(0.5, inner / bins.length - 0.6),
      y: floor - (value / mass) * TALL.sticky,
      height: (value / mass) * TALL.sticky,
    }),
  );
  const bottom = bins.length ? floor : base;
  const labels = [0, 0.25, 0.5, 0.75, 1].map((share) => {
    const age = one.ages[Math.min(points - 1, Math.floor(share * points))];
    return s(
      "text",
      {
        class: "tick",
        x: x(share),
        y: bottom + 17,
        "text-anchor": share === 0 ? "start" : share === 1 ? "end" : "middle",
      },
      String(Math.round(age)),
    );
  });
  return s(
    "svg",
    {
      width,
      height: bottom + TALL.foot,
      role: "img",
      "aria-label": "Attention of the heads to the signal, from old to new",
    },
    grid,
    s("path", { class: "hill", d: path([[x(0), base], ...shape, [x(1), base]]) }),
    s("path", { class: "band", fill: "var(--series-0)", d: `${path(area)}Z` }),
    one.heads.map((head) =>
      s("path", { class: "head", d: path(head.map((value, place) => [at(place), y(value)])) }),
    ),
    s("path", {
      class: "curve",
      stroke: "var(--series-0)",
      d: path(mean.map((value, place) => [at(place), y(value)])),
    }),
    s("line", { class: "axis", x1: MARGIN.left, x2: width - MARGIN.right, y1: base, y2: base }),
    blocks,
    bins.length
      ? s("line", {
          class: "axis",
          x1: MARGIN.left,
          x2: width - MARGIN.right,
          y1: floor,
          y2: floor,
        })
      : null,
    bins.length
      ? s(
          "text",
          { class: "tick", x: MARGIN.left - 7, y: floor - 4, "text-anchor": "end" },
          "sticky",
        )
      : null,
    labels,
    s(
      "text",
      { class: "title", x: MARGIN.left + inner / 2, y: bottom + 36, "text-anchor": "middle" },
      "age of what stands there, in tokens before this segment",
    ),
    s("line", { class: "here", y1: TALL.top, y2: bottom, display: "none" }),
  );
}

export function signal(one, frame, tokens, choose, titled) {
  const more = one.after > one.tokens ? `, ${one.after} after this segment` : "";
  const words = `${one.functions} basis functions for ${one.tokens} tokens${more}`;
  if (!one.heads.length) {
    const empty = one.after
      ? "The first tokens were written to it at the end of this segment."
      : "Nothing is written to it yet: all tokens read are still held one by one.";
    return { node: titled(one, "signal", h("p", { class: "quiet" }, empty)) };
  }
  let place = null;
  const drawing = sized({ class: "drawing" }, (width) => {
    const picture = draw(one, width);
    requestAnimationFrame(() => mark(place));
    return picture;
  });
  // Redrawn at another width, the mark has to be put back.
  function mark(token) {
    place = token;
    const line = drawing.querySelector(".here");
    if (!line) return;
    const share = token === null ? null : standing(one.ages, frame.first - token);
    const inner = drawing.clientWidth - MARGIN.left - MARGIN.right;
    line.setAttribute("display", share === null ? "none" : "inline");
    const at = MARGIN.left + (share ?? 0) * inner;
    line.setAttribute("x1", at);
    line.setAttribute("x2", at);
  }
  const entries = [{ name: "density, mean over heads", style: 0 }];
  const node = titled(
    one,
    "signal",
    h("p", { class: "quiet" }, words),
    legend(entries),
    h(
      "p",
      { class: "axis-title" },
      "attention density over the signal: thin lines are heads, the grey area is the norm of the signal",
      one.sticky.length
        ? "; below (sticky), attention since the last write: the next write keeps more of what got more"
        : null,
    ),
    drawing,
  );
  return { node, mark };
}
