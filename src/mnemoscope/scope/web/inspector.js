// Who remembers a token: how much each part of the model uses it, and where it is still held.

import { bars } from "./chart.js";
import { h, number, unpack } from "./dom.js";

const PER_CENT = (share) => `${number(100 * share)} %`;

function shown(text) {
  return text.trim() === "" ? JSON.stringify(text) : `“${text.trim()}”`;
}

function positionsOf(frame, token) {
  const found = [];
  for (const one of frame.panels) {
    const layer = `layer ${one.layer + 1}`;
    if (one.kind === "slots") {
      if (one.first.some((first) => token >= first && token < first + one.each))
        found.push(`${layer}: ${one.title}`);
    } else if (one.kind === "signal" && token < one.after) found.push(`${layer}: signal`);
    else if (one.kind === "gates") found.push(`${layer}: in the state, mixed with all others`);
  }
  return found;
}

// The entries that a token of this segment asks for most.
function entries(frame, token) {
  const panel = frame.panels.find((one) => one.kind === "entries");
  if (!panel || token < frame.first) return null;
  const { values, shape } = unpack(panel.used);
  const used = Array.from({ length: shape[0] }, (_, entry) => ({
    entry,
    value: values[entry * shape[1] + token - frame.first],
  }));
  used.sort((a, b) => b.value - a.value);
  return h(
    "div",
    {},
    h("p", { class: "quiet" }, "Entries it asks for most"),
    bars(
      used
        .slice(0, 5)
        .map(({ entry, value }) => ({ name: `entry ${entry}`, value, note: number(value) })),
      "entries activated",
    ),
  );
}

export function inspect(frame, tokens, token) {
  if (token === null)
    return [
      h(
        "p",
        { class: "quiet hint" },
        "Point at a token, or choose one with the arrow keys, to see who remembers it. ",
        h("kbd", {}, "n"),
        " and ",
        h("kbd", {}, "p"),
        " step through segments.",
      ),
    ];
  const age = frame.read - 1 - token;
  const bits = token >= frame.first ? frame.bits[token - frame.first] : null;
  const facts = [
    `token ${token + 1}`,
    age === 0 ? "just read" : `read ${age} token${age > 1 ? "s" : ""} ago`,
  ];
  if (bits !== null && bits !== undefined) facts.push(`came with ${number(bits)} bits of surprise`);
  const even = 1 / frame.read;
  const used = frame.parts.map((part) => {
    const share = part.shares[token] ?? 0;
    return {
      name: part.name,
      value: share,
      note: `${PER_CENT(share)} · ${number(share / even)} × even`,
    };
  });
  // A full bar is as much as any token has in any part.
  const most = Math.max(...frame.parts.flatMap((part) => Math.max(...part.shares)), 1e-12);
  const held = positionsOf(frame, token);
  return [
    h("h3", {}, "Who remembers ", h("span", { class: "chip" }, shown(tokens[token])), "?"),
    h("p", { class: "quiet" }, facts.join(", ")),
    used.length ? bars(used, "share of what each part uses, over this segment", most) : null,
    entries(frame, token),
    h(
      "p",
      { class: "held" },
      h("b", {}, "Held in "),
      held.length ? held.join("; ") : "no memory any more",
    ),
  ].filter(Boolean);
}
