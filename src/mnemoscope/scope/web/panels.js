// What each kind of memory holds. A panel is {node, mark(token)}; mark shows where a token is.

import { bars, entryBars, lines } from "./chart.js";
import { bytes, h, number, unpack } from "./dom.js";
import { key, map } from "./map.js";
import { signal } from "./signal.js";

// Positions drawn one by one; of more, neighbours share a square. Free ones are drawn up to a few.
const MOST = 512;
const MOST_FREE = 128;

function titled(one, title, ...content) {
  return h(
    "section",
    { class: `panel ${one.kind}` },
    h(
      "h3",
      {},
      `Layer ${one.layer + 1} · ${title}`,
      h("span", { class: "quiet" }, ` ${bytes(one.bytes)}`),
    ),
    ...content,
  );
}

function slots(one, frame, tokens, choose) {
  const { first, each, room } = one;
  const part = frame.parts.filter((other) => other.name === one.part);
  const group = Math.ceil(first.length / MOST) || 1;
  const shares = [];
  for (let at = 0; at < first.length; at += group) {
    let sum = 0;
    for (const begin of first.slice(at, at + group))
      for (let step = 0; step < each; step += 1)
        for (const other of part) sum += other.shares[begin + step] ?? 0;
    shares.push(sum);
  }
  const most = Math.max(...shares, 1e-9);
  const ends = (place) => [
    first[place * group],
    first[Math.min(first.length, (place + 1) * group) - 1] + each,
  ];
  const squares = shares.map((share, place) => {
    const [begin, end] = ends(place);
    const words = tokens.slice(begin, Math.min(end, begin + 12)).join("");
    return h("i", {
      class: "slot",
      "--w": Math.sqrt(share / most).toFixed(3),
      title: `${JSON.stringify(words)} · ${number((100 * share) / Math.max(1, part.length))} %`,
      onclick: () => choose(begin),
    });
  });
  const unused = room === null ? 0 : Math.max(0, Math.ceil((room - first.length) / group));
  const free = unused > MOST_FREE ? 0 : unused;
  const grid = h(
    "div",
    {
      class: "squares",
      role: "img",
      "aria-label": `${first.length} positions, coloured by how much they are used`,
    },
    squares,
    Array.from({ length: free }, () => h("i", { class: "slot free" })),
  );
  const said = [];
  if (!first.length) said.push("empty");
  else {
    said.push(`${first.length}${room === null ? "" : ` of ${room}`} positions`);
    said.push(`tokens ${first[0] + 1} to ${first[first.length - 1] + each}`);
  }
  if (room !== null && first.length > room) {
    said[0] = `${room} of ${room} positions`;
    said.push(`the oldest ${first.length - room} leave when their group is complete`);
  }
  if (group > 1) said.push(`${group} positions a square`);
  const node = titled(
    one,
    one.title,
    h("p", { class: "quiet" }, said.join(", ")),
    grid,
  );
  const mark = (token) =>
    squares.forEach((square, place) => {
      const inside =
        token !== null &&
        first
          .slice(place * group, (place + 1) * group)
          .some((begin) => token >= begin && token < begin + each);
      square.classList.toggle("on", inside);
    });
  return { node, mark };
}

function gates(one, frame) {
  const x = Array.from({ length: frame.new }, (_, place) => frame.first + place + 1);
  const units = unpack(one.units);
  const signed = one.keeper === "hidden";
  const range = signed ? [-1, 1] : [0, 1];
  const strongest = Math.max(...one.state.map(Math.abs), 1e-9);
  const stateMap = { values: Float32Array.from(one.state), shape: [1, one.state.length] };
  const cursor = h("i", { class: "cursor", hidden: true });
  const picture = h(
    "div",
    { class: "pictured" },
    map(units, `${one.keeper} of every unit over the segment`, range, {
      split: signed,
      height: 120,
    }),
    cursor,
  );
  const node = titled(
    one,
    one.gates.length ? "gates" : "state",
    one.gates.length
      ? lines({
          label: "How far gates open over the segment",
          series: one.gates.map((gate, place) => ({
            name: gate.name,
            x,
            y: gate.mean,
            low: gate.low,
            high: gate.high,
            style: place,
          })),
          range: [-1, 1],
          xTitle: "token",
          yTitle: "activation: mean over units, band from 10 to 90 % of them",
        })
      : null,
    h(
      "p",
      { class: "axis-title" },
      signed
        ? "hidden vector over the segment: units down, tokens across"
        : `${one.keeper} gate: units down, tokens across`,
    ),
    picture,
    key(range, signed ? "activation" : "1 keeps all, 0 nothing", signed),
    h("p", { class: "axis-title" }, `${one.vector} vector after the segment, units as above`),
    map(stateMap, `${one.vector} of every unit now`, [-strongest, strongest], {
      split: true,
      height: 22,
    }),
    key([-strongest, strongest], one.vector, true),
  );
  const mark = (token) => {
    cursor.hidden = token === null || token < frame.first;
    cursor.style.left = `${(100 * (token - frame.first)) / frame.new}%`;
    cursor.style.width = `${100 / frame.new}%`;
  };
  return { node, mark };
}

function entries(one) {
  const least = Math.min(...one.losses.filter((row) => row.bits !== null).map((row) => row.bits));
  const losses = one.losses.map((row) => ({
    name: row.name ?? "no document",
    value: row.bits ?? 0,
    note:
      row.bits === null ? "–" : `${number(row.bits)} bits${row.bits === least ? ", least" : ""}`,
    strong: row.name === one.document,
  }));
  const selection = unpack(one.selection);
  const span = Math.max(Math.abs(selection.low), Math.abs(selection.high), 1e-9);
  const added = one.added
    .map((value, entry) => ({ value, entry }))
    .sort((a, b) => b.value - a.value);
  const node = titled(
    one,
    "document entries",
    h("p", { class: "axis-title" }, "loss in bits per token under each document"),
    bars(losses, "loss in bits per token under each document"),
    h("p", { class: "axis-title" }, "gate of every entry: documents down, entries across"),
    h(
      "div",
      { class: "labelled" },
      h(
        "ol",
        {},
        one.documents.map((name) =>
          h("li", { class: name === one.document ? "strong" : null, title: name }, name),
        ),
      ),
      map(selection, "gate of every entry for every document", [-span, span], {
        split: true,
        height: 22 * one.documents.length,
      }),
    ),
    key([-span, span], "gate", true),
    one.document === null
      ? h("p", { class: "quiet" }, "Without a document nothing is added.")
      : [
          h("p", { class: "axis-title" }, "entries that add most in this segment"),
          entryBars(added.slice(0, 6), "entries that add most"),
        ],
  );
  return { node };
}

function tensors(one) {
  const rows = one.rows
    .slice(0, 60)
    .map(([name, shape, size]) =>
      h("tr", {}, h("td", {}, name), h("td", {}, shape), h("td", { class: "number" }, bytes(size))),
    );
  const node = titled(
    one,
    "carried tensors",
    h("div", { class: "scroll", tabindex: "0" }, h("table", {}, h("tbody", {}, rows))),
  );
  return { node };
}

const KINDS = { slots, gates, entries, tensors, signal };

export function panel(one, frame, tokens, choose) {
  return KINDS[one.kind](one, frame, tokens, choose, titled);
}
