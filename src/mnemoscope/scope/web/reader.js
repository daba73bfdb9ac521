// One model that reads: its text, what it predicts, who remembers the chosen token, its memories.

import { post } from "./api.js";
import { Blank } from "./blank.js";
import { lines } from "./chart.js";
import { bytes, count, h, number, unpackShares } from "./dom.js";
import { Episode } from "./episode.js";
import { Heads } from "./heads.js";
import { inspect } from "./inspector.js";
import { about } from "./meaning.js";
import { panel } from "./panels.js";
import { Text } from "./text.js";

// More layers than this are shown one at a time.
const AT_ONCE = 3;

export class Reader {
  // moved() when another token or head is looked at, so that the address can say so.
  constructor(found, moved) {
    this.found = found;
    this.moved = moved;
    this.layer = null;
    // token -> {said, answer, bits}, of segments that were looked at and of all questions before
    this.known = new Map();
    this.facts = h("p", { class: "facts" });
    this.error = h("div", { role: "alert" });
    const { about: model, edges, phrases, tokens } = found;
    // A language model is asked for the next token, a task for its answers.
    this.follows = model.kind === "stream" && phrases.length === 0;
    const shape = {
      symbols: model.symbols !== null,
      columns: model.columns,
      parted: model.kind === "translator" ? edges[1] : null,
    };
    this.text = new Text(tokens, shape, (token) => this.point(token));
    this.episode = phrases.length
      ? new Episode(phrases, model.kind === "stream", (token) => this.pick(token))
      : null;
    this.heads = new Heads(() => this.look());
    // All there is to see of an encoder is its attention.
    if (model.kind === "encoder") this.heads.set("layer 1");
    this.blank = new Blank(this);
    this.inspector = h("div", { class: "inspector", "aria-live": "polite" });
    this.memory = h("div", { class: "memory" });
    this.node = h(
      "section",
      { class: "reader", "aria-label": model.name },
      h(
        "div",
        { class: "reading" },
        h("h2", {}, model.label, h("span", { class: "quiet" }, ` ${model.name}`)),
        this.facts,
        this.episode?.node,
        this.heads.controls,
        this.text.node,
        this.error,
        this.inspector,
        this.blank.node,
      ),
      this.memory,
    );
    this.text.chose = () => this.chose();
  }

  // Two that read the same tokens are pointed at together.
  pair(other) {
    const same =
      this.found.tokens.length === other.found.tokens.length &&
      this.found.tokens.every((text, place) => text === other.found.tokens[place]);
    if (same) [this.partner, other.partner] = [other, this];
  }

  // Choose a token that somebody pointed at elsewhere, if it was read already.
  pick(token) {
    if (this.frame && token < this.frame.read) this.text.choose(token);
  }

  chose() {
    if (!this.frame) return;
    this.partner?.text.choose(this.text.chosen, true);
    this.blank.show(true);
    this.partner?.blank.show(true);
    this.moved();
  }

  async show(segment) {
    const asked = (this.asked = segment);
    const frame = await post("step", { reading: this.found.reading, segment });
    if (asked !== this.asked) return; // somebody has moved on meanwhile
    for (const part of frame.parts) part.shares = unpackShares(part.share).values;
    frame.weights = frame.mean = unpackShares(frame.map).values;
    frame.read = frame.first + frame.new;
    await this.heads.show(this.found.reading, frame);
    if (asked !== this.asked) return;
    this.frame = frame;
    for (const { token, ...told } of frame.answered) this.known.set(token, told);
    frame.said.forEach((said, place) => {
      const [answer, bits] = [frame.answers[place], frame.bits[place]];
      this.known.set(frame.first + place, { said, answer, bits });
    });
    this.tellFacts();
    this.text.show(frame);
    this.episode?.show(frame.read, this.known);
    this.drawMemory();
    this.blank.show(true);
    this.point(this.text.chosen);
  }

  // Another head of the segment that is shown.
  async look() {
    this.error.replaceChildren();
    try {
      this.frame.weights = this.frame.mean;
      await this.heads.show(this.found.reading, this.frame);
    } catch (error) {
      this.error.replaceChildren(h("p", { class: "error" }, error.message));
    }
    this.point(this.text.chosen);
    this.moved();
  }

  tellFacts() {
    const { frame, found } = this;
    const bits = frame.bits.filter((one) => one !== null);
    const mean = bits.reduce((sum, one) => sum + one, 0) / bits.length;
    const facts = [
      found.about.kind === "encoder" ? null : [bytes(frame.bytes), "of state"],
      [String(frame.read), `of ${found.tokens.length} tokens read`],
      bits.length ? [number(mean), `bits per ${this.follows ? "token" : "answer"} here`] : null,
      [count(found.about.parameters), "parameters"],
    ].filter(Boolean);
    this.facts.replaceChildren(
      ...facts.map(([value, words]) => h("span", {}, h("b", {}, value), ` ${words}`)),
    );
  }

  // Someone points at a token, or at none (null); a reader of the same tokens looks there too.
  point(token, followed = false) {
    if (!this.frame) return;
    if (this.partner && !followed) this.partner.point(token, true);
    const known = token !== null && token < this.frame.read ? token : null;
    this.text.tint(this.frame, known, this.who);
    this.inspector.replaceChildren(...inspect(this, known));
    this.episode?.mark(known);
    this.heads.mark(known);
    for (const one of this.drawn) one.mark?.(known);
  }

  // What the tint of the text belongs to.
  get who() {
    if (this.heads.address.part) return `the attention of ${this.heads.name}`;
    return this.frame.parts.some((one) => one.heads) ? "attention, mean of all layers" : "the state";
  }

  drawMemory() {
    const frame = this.frame;
    const layers = [...new Set(frame.panels.map((one) => one.layer))].sort((a, b) => a - b);
    if (this.layer === null || !layers.includes(this.layer))
      this.layer = layers.length > AT_ONCE ? layers[layers.length - 1] : -1;
    const shown = frame.panels.filter(
      (one) => this.layer < 0 || one.layer === this.layer || one.kind === "entries",
    );
    this.drawn = shown.map((one) => panel(one, frame, this.found.tokens, (token) => this.pick(token)));
    const parts = frame.parts.filter((one) => this.layer < 0 || one.layer === this.layer);
    const aged = parts.length && this.found.about.kind === "stream";
    this.memory.replaceChildren(
      ...[
        this.heads.picture,
        this.chooser(layers),
        aged ? this.ages(parts) : null,
        ...this.drawn.map((one) => one.node),
        about(frame, this.found.about.kind),
      ].filter(Boolean),
    );
  }

  chooser(layers) {
    if (layers.length < 2) return null;
    const options = [
      h("option", { value: -1, selected: this.layer === -1 }, "all"),
      ...layers.map((one) => h("option", { value: one, selected: one === this.layer }, one + 1)),
    ];
    const control = h("select", {}, options);
    control.addEventListener("change", () => {
      this.layer = Number(control.value);
      this.drawMemory();
      this.point(this.text.chosen);
      this.memory.querySelector("select").focus();
    });
    return h("label", { class: "field line" }, h("span", {}, "Memories of layer"), control);
  }

  ages(parts) {
    const names = this.frame.ages.map(([low, high]) =>
      low === high ? String(low) : `${low}–${high}`,
    );
    const x = names.map((name, place) => place);
    return h(
      "section",
      { class: "panel" },
      h("h3", {}, "By age"),
      lines({
        label: "Share of tokens, by how many tokens ago they were read",
        series: parts.map((part, place) => ({ name: part.name, x, y: part.ages, style: place })),
        reference: { name: "uniform over all tokens", y: this.frame.uniform },
        xLabels: names,
        xTitle: "age: how many tokens ago",
        yTitle: parts.some((one) => one.heads) ? "attention weight" : "share of the state",
      }),
    );
  }
}
