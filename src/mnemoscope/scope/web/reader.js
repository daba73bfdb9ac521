// One model that reads: its text, who remembers the chosen token, and its memories.

import { post } from "./api.js";
import { lines } from "./chart.js";
import { bytes, count, h, number, unpackShares } from "./dom.js";
import { inspect } from "./inspector.js";
import { about } from "./meaning.js";
import { panel } from "./panels.js";
import { Text } from "./text.js";

// More layers than this are shown one at a time.
const AT_ONCE = 3;

export class Reader {
  constructor(found) {
    this.found = found;
    this.layer = null;
    this.facts = h("p", { class: "facts" });
    this.text = new Text(found.tokens, found.about.symbols !== null, (token) => this.point(token));
    this.inspector = h("div", { class: "inspector", "aria-live": "polite" });
    this.memory = h("div", { class: "memory" });
    const model = found.about;
    this.node = h(
      "section",
      { class: "reader", "aria-label": model.name },
      h(
        "div",
        { class: "reading" },
        h("h2", {}, model.label, h("span", { class: "quiet" }, ` ${model.name}`)),
        this.facts,
        this.text.node,
        this.inspector,
      ),
      this.memory,
    );
  }

  // Two that read the same tokens are pointed at together.
  pair(other) {
    const same =
      this.found.tokens.length === other.found.tokens.length &&
      this.found.tokens.every((text, place) => text === other.found.tokens[place]);
    if (!same) return;
    [this.partner, other.partner] = [other, this];
    for (const one of [this, other])
      one.text.chose = (token) => one.partner.text.choose(token, true);
  }

  async show(segment) {
    const asked = (this.asked = segment);
    const frame = await post("step", { reading: this.found.reading, segment });
    if (asked !== this.asked) return; // somebody has moved on meanwhile
    for (const part of frame.parts) part.shares = unpackShares(part.share).values;
    frame.weights = unpackShares(frame.map).values;
    frame.read = frame.first + frame.new;
    this.frame = frame;
    const known = frame.bits.filter((one) => one !== null);
    const mean = known.reduce((sum, one) => sum + one, 0) / known.length;
    const facts = [
      [bytes(frame.bytes), "carried on"],
      [String(frame.read), `of ${this.found.tokens.length} tokens read`],
      [count(this.found.about.parameters), "parameters"],
    ];
    if (known.length) facts.splice(2, 0, [number(mean), "bits a token here"]);
    this.facts.replaceChildren(
      ...facts.map(([value, words]) => h("span", {}, h("b", {}, value), ` ${words}`)),
    );
    this.text.show(frame);
    this.drawMemory();
    this.point(this.text.chosen);
  }

  // Someone points at a token, or at none (null); a reader of the same tokens looks there too.
  point(token, followed = false) {
    if (!this.frame) return;
    if (this.partner && !followed) this.partner.point(token, true);
    const known = token !== null && token < this.frame.read ? token : null;
    this.text.tint(this.frame, known);
    this.inspector.replaceChildren(...inspect(this.frame, this.found.tokens, known));
    for (const one of this.drawn) one.mark?.(known);
  }

  drawMemory() {
    const frame = this.frame;
    const layers = [...new Set(frame.panels.map((one) => one.layer))].sort((a, b) => a - b);
    if (this.layer === null || !layers.includes(this.layer))
      this.layer = layers.length > AT_ONCE ? layers[layers.length - 1] : -1;
    const shown = frame.panels.filter(
      (one) => this.layer < 0 || one.layer === this.layer || one.kind === "entries",
    );
    this.drawn = shown.map((one) =>
      panel(one, frame, this.found.tokens, (token) => this.text.choose(token)),
    );
    const parts = frame.parts.filter((one) => this.layer < 0 || one.layer === this.layer);
    this.memory.replaceChildren(
      ...[
        this.chooser(layers),
        parts.length ? this.ages(parts) : null,
        ...this.drawn.map((one) => one.node),
        about(frame),
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
    return h("label", { class: "field line" }, h("span", {}, "Layer"), control);
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
        label: "Share of what is used, by how many tokens ago it was read",
        series: parts.map((part, place) => ({ name: part.name, x, y: part.ages, style: place })),
        reference: { name: "if all tokens counted the same", y: this.frame.even },
        xLabels: names,
        xTitle: "tokens ago",
        yTitle: "share",
      }),
    );
  }
}
