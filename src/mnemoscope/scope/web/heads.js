// Attention of single heads: which part and head tints the text, and its map over the segment.

import { post } from "./api.js";
import { h, unpackShares } from "./dom.js";
import { key, map } from "./map.js";

const MEAN = "mean";

function options(entries, chosen) {
  return entries.map(([value, name]) => h("option", { value, selected: value === chosen }, name));
}

export class Heads {
  // changed() when another head is chosen.
  constructor(changed) {
    this.changed = changed;
    [this.part, this.head] = [MEAN, MEAN];
    this.parts = h("select", { "aria-label": "Layer", onchange: () => this.choose() });
    this.heads = h("select", { "aria-label": "Head", onchange: () => this.choose() });
    this.headField = h("label", { class: "field line" }, h("span", {}, "Head"), this.heads);
    this.controls = h(
      "div",
      { class: "row heads" },
      h("label", { class: "field line" }, h("span", {}, "Attention of"), this.parts),
      this.headField,
    );
    this.picture = h("section", { class: "panel head-map", hidden: true });
    this.cursor = null;
  }

  // A view that was sent says which head it showed.
  set(part, head) {
    [this.part, this.head] = [part || MEAN, head ? String(Number(head) - 1) : MEAN];
  }

  get address() {
    if (this.part === MEAN) return {};
    return this.head === MEAN
      ? { part: this.part }
      : { part: this.part, head: Number(this.head) + 1 };
  }

  choose() {
    [this.part, this.head] = [this.parts.value, this.heads.value || MEAN];
    this.changed();
  }

  // Fills frame.weights (T, N) with what is chosen; draws the controls anew.
  async show(reading, frame) {
    const attending = frame.parts.filter((one) => one.heads > 0);
    const part = attending.find((one) => one.name === this.part);
    if (!part || Number(this.head) >= part.heads) this.head = MEAN;
    this.parts.replaceChildren(
      ...options(
        [[MEAN, "all layers, mean"], ...attending.map((one) => [one.name, one.name])],
        part ? this.part : MEAN,
      ),
    );
    const numbers = Array.from({ length: part?.heads ?? 0 }, (_, one) => [`${one}`, one + 1]);
    this.heads.replaceChildren(...options([[MEAN, "mean of heads"], ...numbers], this.head));
    this.headField.hidden = !part;
    this.controls.hidden = attending.length === 0;
    this.picture.hidden = !part;
    if (!part) return;
    const head = this.head === MEAN ? null : Number(this.head);
    const ask = { reading, segment: frame.segment, part: this.part, head };
    const matrix = unpackShares(await post("head", ask));
    frame.weights = matrix.values;
    this.draw(matrix, frame);
  }

  get name() {
    const head = this.head === MEAN ? "mean of heads" : `head ${Number(this.head) + 1}`;
    return `${this.part}, ${head}`;
  }

  draw(matrix, frame) {
    const most = Math.max(...matrix.values, 1e-9);
    this.cursor = h("i", { class: "cursor", hidden: true });
    this.picture.replaceChildren(
      h("h3", {}, `Attention of ${this.name}`),
      h(
        "p",
        { class: "axis-title" },
        frame.first
          ? `the ${frame.new} tokens of this segment down, all ${frame.read} tokens read across`
          : "tokens that attend down, tokens attended to across",
      ),
      h(
        "div",
        { class: "pictured" },
        map(matrix, `attention of ${this.name}`, [0, most], {
          height: Math.min(240, Math.max(40, 8 * frame.new)),
        }),
        this.cursor,
      ),
      key([0, most], "attention weight"),
    );
    this.columns = frame.read;
  }

  mark(token) {
    if (!this.cursor) return;
    this.cursor.hidden = token === null;
    this.cursor.style.left = `${(100 * token) / this.columns}%`;
    this.cursor.style.width = `${100 / this.columns}%`;
  }
}
