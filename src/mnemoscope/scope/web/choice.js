// What the form of the live view is made of: a text to begin with, and lists to choose from.

import { h } from "./dom.js";

export const SAMPLE = [
  "The keeper of the north light kept a blue key in a tin box. Every evening she climbed",
  "ninety stairs, wiped the lamp and wrote the weather in her book. One night in March a",
  "boy named Tomas came up from the boats and asked for the key. She gave it to him and",
  "said that the door would stick. In the morning the boy was gone, the box was open, and",
  "the door stood wide. She wrote in her book: fog from the west, ninety stairs, no key.",
  "Years later a man came up the stairs. He said that his name was Tomas, and he laid the",
  "blue key on the book.",
].join(" ");

// Models that are no runs, by kind, as [identity, name]; and what a kind is called.
export const KINDS = {
  given: "named at the start",
  huggingface: "Hugging Face",
  infinite: "∞-former or Transformer-XL memory on a Hugging Face model",
  documents: "document memory on a Hugging Face model",
};

export function models(found, kind) {
  return found[kind].map((name, place) => [
    kind === "given" ? `given:${place}` : `${kind}:${name}`,
    name,
  ]);
}

export function field(label, control, note) {
  return h("label", { class: "field" }, h("span", {}, label), control, note ?? null);
}

const RUNS = { memory: "Runs", translator: "Runs of translators", encoder: "Runs of encoders" };

// All models that can be opened, as groups of [identity, name].
export function choices(found) {
  const runs = found.runs.filter((run) => run.openable);
  const named = (run) => [`run:${run.id}`, `${run.label} on ${run.task} · ${run.id}`];
  return [
    ...Object.keys(KINDS).map((kind) => [KINDS[kind], models(found, kind)]),
    ...Object.keys(RUNS).map((kind) => [
      RUNS[kind],
      runs.filter((run) => run.kind === kind).map(named),
    ]),
  ].filter(([, entries]) => entries.length);
}

export function select(label, groups, chosen, first) {
  const options = groups.map(([title, entries]) =>
    h(
      "optgroup",
      { label: title },
      entries.map(([value, name]) => h("option", { value, selected: value === chosen }, name)),
    ),
  );
  return h(
    "select",
    { "aria-label": label },
    first ? h("option", { value: "" }, first) : null,
    options,
  );
}
