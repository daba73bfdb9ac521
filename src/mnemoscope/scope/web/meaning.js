// What the numbers on the page mean, for the memories that are shown.

import { h } from "./dom.js";

const MEANINGS = {
  gates: [
    "Recurrent state: for every token, a second copy of the layer skips it and reads all",
    "others. A share is how far that copy's state is from the true one (absolute difference,",
    "summed over units), divided by the sum over all tokens. The layer below is left as it was.",
  ].join(" "),
  slots: [
    "Attention: a share is the attention weight of a token, mean over heads. A vector that",
    "stands for several tokens hands its weight to them in equal parts. Attention weight is no",
    "proof that what is attended to matters: blank it to find out.",
  ].join(" "),
  signal: [
    "Signal: a share is the mass of the attention density over the stretch of the signal where",
    "a token stands, mean over heads. The rest of a density lies beyond the ends of the signal,",
    "so shares may add up to less than one. Where tokens stand follows from what was written",
    "when; how sharply they can be told apart there is not shown.",
  ].join(" "),
  entries: [
    "Documents: bars give the loss in bits per token under each document and under none, on the",
    "same text. An entry's strength is the norm of what it would add to the hidden state, times",
    "its gate for the document.",
  ].join(" "),
  tensors: "These tensors have no entry for any single token: only their sizes are shown.",
};

const GENERAL = {
  stream: [
    "By age: mean share of each group of ages, over those tokens of the segment that have read",
    "so far back. × uniform: against the same weight on all tokens read so far. The state is all",
    "that the model carries to the next segment.",
  ].join(" "),
  translator: "The state is all that the decoder knows of the source, and of what it has said.",
  encoder: [
    "Attention: a share is the attention weight of a token, mean over heads. An encoder reads all",
    "tokens at once and carries no state.",
  ].join(" "),
};

const BLANK = [
  "Blank: the segment is cut before the chosen token, and the rest of it is read twice from the",
  "same state: as it is, and with something taken away. Positions stay as they are; the model and",
  "its states are not changed. What a Transformer-XL or an ∞-former predicts depends a little on",
  "where segments end, so both readings may differ from the predictions shown above.",
].join(" ");

export function about(frame, kind) {
  const kinds = Object.keys(MEANINGS).filter((one) =>
    frame.panels.some((panel) => panel.kind === one),
  );
  return h(
    "details",
    { class: "meaning" },
    h("summary", {}, "What is shown"),
    kinds.map((one) => h("p", {}, MEANINGS[one])),
    h("p", {}, GENERAL[kind]),
    kind === "encoder" ? null : h("p", {}, BLANK),
  );
}
