// One token: what the model predicts at it, how much each part uses it, and where it is held.

import { bars, entryBars } from "./chart.js";
import { h, number, percent, quoted, unpack } from "./dom.js";

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
    h("p", { class: "quiet" }, "Entries it activates most"),
    entryBars(used.slice(0, 5), "entries activated"),
  );
}

// Answers [[name, probability]] as bars, the true one marked; ``answer`` null where none is known.
function answerBars(said, answer, label) {
  const shown = said.map(([name, share]) => ({
    name: quoted(name),
    value: share,
    note: percent(share),
    strong: name === answer,
  }));
  return bars(shown, label, 1);
}

// What the model says at a token: {said, answer, bits}.
export function predictions(known, text, follows) {
  if (!known?.said) return null;
  const { answer, bits } = known;
  const wanted = follows ? "next came" : "the answer is";
  const cost =
    bits === null || answer === null
      ? "what comes next is not known"
      : `${wanted} ${quoted(answer)}, which costs ${number(bits)} bits`;
  return h(
    "div",
    { class: "predictions" },
    h("h3", {}, "Predictions at ", h("span", { class: "chip" }, quoted(text))),
    answer === null && !follows ? null : h("p", { class: "quiet" }, cost),
    answerBars(known.said, answer, "likeliest answers with their probabilities"),
  );
}

const HINT = [
  "Point at a token, or choose one with the arrow keys, to see what is predicted there and who ",
  "remembers it. ",
];

export function inspect(reader, token) {
  const { frame, known } = reader;
  const { tokens, about } = reader.found;
  if (token === null)
    return [
      h(
        "p",
        { class: "quiet hint" },
        HINT.join(""),
        frame.read < tokens.length || frame.segment
          ? [h("kbd", {}, "n"), " and ", h("kbd", {}, "p"), " step through segments."]
          : null,
      ),
    ];
  const age = frame.read - 1 - token;
  const facts = [`token ${token + 1}`];
  if (about.kind === "stream")
    facts.push(age === 0 ? "just read" : `read ${age} token${age > 1 ? "s" : ""} ago`);
  const uniform = 1 / frame.read;
  const used = frame.parts.map((part) => {
    const share = part.shares[token] ?? 0;
    return {
      name: part.name,
      value: share,
      note: `${percent(share)} · ${number(share / uniform)} × uniform`,
    };
  });
  // A full bar is as much as any token has in any part.
  const most = Math.max(...frame.parts.flatMap((part) => Math.max(...part.shares)), 1e-12);
  const held = positionsOf(frame, token);
  return [
    predictions(known.get(token), tokens[token], reader.follows),
    h("h3", {}, about.kind === "stream" ? "Who remembers " : "Who attends to ", h("span", { class: "chip" }, quoted(tokens[token])), "?"),
    h("p", { class: "quiet" }, facts.join(", ")),
    used.length ? bars(used, "share of each part, mean over this segment", most) : null,
    entries(frame, token),
    about.kind === "encoder"
      ? null
      : h(
          "p",
          { class: "held" },
          h("b", {}, "Held in "),
          held.length ? held.join("; ") : "no memory any more",
        ),
  ].filter(Boolean);
}
