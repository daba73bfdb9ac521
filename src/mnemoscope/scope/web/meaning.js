// What the numbers on the page mean, for the memories that are shown.

import { h } from "./dom.js";

const MEANINGS = {
  gates: [
    "Recurrent state: for every token, a second copy of the layer skips it and reads all",
    "others. A share is how far that copy's state is from the true one (absolute difference",
    "over units), divided by the sum over all tokens. The layer below is left as it was.",
  ].join(" "),
  slots: [
    "Attention: the weight a token gets, averaged over heads and over the tokens of the",
    "segment. A vector that stands for several tokens hands its weight to them in equal",
    "parts. Attention weight is no proof that what is attended to matters.",
  ].join(" "),
  signal: [
    "Signal: the weight of the density over the stretch of the signal where a token stands,",
    "averaged over heads. The rest of a density lies beyond the ends of the signal, so",
    "shares may add up to less than one. Where tokens stand follows from what was written",
    "when; how sharply they can be told apart there is not shown.",
  ].join(" "),
  entries: [
    "Documents: bars give the bits a token costs under each document and under none, for",
    "the same text. An entry's strength is how much it would add to the hidden state, times",
    "how far the document opens it.",
  ].join(" "),
  tensors: [
    "This memory is carried in tensors whose entries stand for no single token: only their",
    "sizes are shown.",
  ].join(" "),
};

export function about(frame) {
  const kinds = Object.keys(MEANINGS).filter((kind) =>
    frame.panels.some((one) => one.kind === kind),
  );
  return h(
    "details",
    { class: "meaning" },
    h("summary", {}, "What is shown"),
    kinds.map((kind) => h("p", {}, MEANINGS[kind])),
    h(
      "p",
      {},
      [
        "By age: the mean share of each group of ages, over those tokens of the segment that",
        "have read so far back. × even: against a memory that uses all tokens read so far the",
        "same. Bytes are all that the model carries on. An untrained twin beside a model shows",
        "what its shape alone does.",
      ].join(" "),
    ),
  );
}
