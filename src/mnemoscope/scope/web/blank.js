// "Blank this": take something out of the state before a token, and see what is predicted then.

import { post } from "./api.js";
import { h, number, percent, quoted } from "./dom.js";

const STATE = "state";
const ENTRY = "entry";
const AGES = "ages";
// Tokens whose loss changed most.
const SHOWN = 5;

const option = (value, name) => h("option", { value }, name);

// What can be taken away from one panel before ``token``, as [request, name]; newest first. Of
// tokens that is what was held before the segment, and those of the segment itself.
function entriesOf(panel, frame, tokens, token) {
  const at = { layer: panel.layer, store: panel.title };
  if (panel.kind === "slots") {
    const read = panel.each > 1 || panel.part.endsWith("source") ? 0 : token - frame.first;
    return [...panel.before, ...Array.from({ length: read }, (_, place) => frame.first + place)]
      .map((first) => {
        const words = quoted(tokens.slice(first, first + panel.each).join(""));
        return [
          { ...at, low: first, high: first + panel.each - 1 },
          `token ${first + 1} ${words}, ${token - first} tokens ago`,
        ];
      })
      .reverse();
  }
  const units = (count, name) =>
    Array.from({ length: count }, (_, unit) => [{ ...at, unit }, `${name} ${unit + 1}`]);
  if (panel.kind === "signal") return units(panel.functions, "basis function");
  if (panel.kind === "entries") return units(panel.added.length, "entry");
  if (panel.kind === "gates")
    return panel.order
      .map((unit, place) => [unit, panel.state[place]])
      .sort((a, b) => Math.abs(b[1]) - Math.abs(a[1]))
      .map(([unit, value]) => [{ ...at, unit }, `unit ${unit + 1}, ${number(value)}`]);
  return [];
}

export class Blank {
  constructor(reader) {
    this.reader = reader;
    this.what = h("select", { "aria-label": "What to blank", onchange: () => this.choices() });
    this.store = h("select", { "aria-label": "Memory", onchange: () => this.entries() });
    this.entry = h("select", { "aria-label": "Entry" });
    const age = (label, value) =>
      h("input", { type: "number", min: 1, max: 2048, value, "aria-label": label });
    [this.low, this.high] = [age("From so many tokens ago", 1), age("To so many tokens ago", 16)];
    this.stores = h("div", { class: "row", hidden: true }, this.store, this.entry);
    this.ages = h(
      "div",
      { class: "row span", hidden: true },
      h("label", { class: "field line" }, h("span", {}, "from"), this.low),
      h("label", { class: "field line" }, h("span", {}, "to"), this.high),
      h("span", { class: "quiet" }, "tokens ago"),
    );
    this.start = h("button", { type: "submit", class: "button quiet" }, "Blank");
    this.where = h("p", { class: "quiet" });
    this.result = h("div", { class: "blanked", "aria-live": "polite" });
    this.node = h(
      "form",
      {
        class: "blank",
        "aria-label": "Blank this",
        onsubmit: (event) => {
          event.preventDefault();
          this.run();
        },
      },
      h("h3", {}, "Blank this"),
      this.where,
      h("div", { class: "row" }, this.what, this.start),
      this.stores,
      this.ages,
      this.result,
    );
  }

  // The token before which something is taken away.
  get token() {
    const { frame, text } = this.reader;
    const chosen = text.chosen !== null && text.chosen >= frame.first ? text.chosen : frame.first;
    return this.whole || chosen > 0 ? chosen : Math.min(1, frame.read - 1);
  }

  // Encoders carry nothing on: there, a token is hidden from all others.
  get whole() {
    return this.reader.found.about.kind === "encoder";
  }

  // A new segment, or another token.
  show(moved) {
    const { frame, found } = this.reader;
    const reads = found.about.kind === "translator" && frame.segment === 0;
    this.node.hidden = reads || (!this.whole && frame.read < 2);
    if (this.node.hidden) return;
    const words = `token ${this.token + 1} ${quoted(found.tokens[this.token])}`;
    this.where.textContent = this.whole
      ? "Hide one token from all others."
      : `Take something out of the state before ${words} is read.`;
    this.panels = frame.panels.filter((one) => one.kind !== "tensors");
    const layers = [...new Set(frame.panels.map((one) => one.layer))].sort((a, b) => a - b);
    const kept = this.what.value;
    this.what.replaceChildren(
      ...(this.whole
        ? [option(ENTRY, "one token")]
        : [
            option(STATE, "the whole state"),
            ...layers.map((one) => option(`${one}`, `layer ${one + 1}`)),
            this.panels.length ? option(ENTRY, "one entry") : "",
            found.about.kind === "stream" ? option(AGES, "a span of ages") : "",
          ].filter(Boolean)),
    );
    if ([...this.what.options].some((one) => one.value === kept)) this.what.value = kept;
    this.choices();
    if (moved) this.result.replaceChildren();
  }

  choices() {
    this.stores.hidden = this.what.value !== ENTRY;
    this.ages.hidden = this.what.value !== AGES;
    if (this.stores.hidden) return;
    const kept = this.store.value;
    this.store.hidden = this.whole;
    this.store.replaceChildren(
      ...this.panels.map((one, place) => option(`${place}`, `layer ${one.layer + 1} · ${one.title}`)),
    );
    if (kept && Number(kept) < this.panels.length) this.store.value = kept;
    this.entries();
  }

  entries() {
    const { tokens } = this.reader.found;
    const kept = this.entry.value;
    this.found = this.whole
      ? tokens.map((text, at) => [{ low: at, high: at }, `token ${at + 1} ${quoted(text)}`])
      : entriesOf(this.panels[Number(this.store.value)], this.reader.frame, tokens, this.token);
    this.entry.replaceChildren(
      ...this.found.map(([, name], place) => option(`${place}`, name)),
    );
    if (kept && Number(kept) < this.found.length) this.entry.value = kept;
  }

  // The request, and what it takes away in words.
  asked() {
    const kind = this.what.value;
    if (kind === STATE) return [{}, "the whole state"];
    if (kind === AGES) {
      const [low, high] = [Number(this.low.value) || 1, Number(this.high.value) || 1];
      const [near, far] = [Math.min(low, high), Math.max(low, high)];
      const tokens = { low: Math.max(0, this.token - far), high: Math.max(0, this.token - near) };
      return [tokens, `what was read ${near} to ${far} tokens ago`];
    }
    if (kind !== ENTRY) return [{ layer: Number(kind) }, `layer ${Number(kind) + 1}`];
    const chosen = this.found[Number(this.entry.value)];
    if (!chosen) throw new Error("this memory holds nothing before that token: choose another");
    const name = this.entry.selectedOptions[0].textContent;
    return [chosen[0], this.whole ? name : `${this.store.selectedOptions[0].textContent}: ${name}`];
  }

  async run() {
    this.start.disabled = true;
    try {
      const { found, frame } = this.reader;
      const token = this.token;
      const [request, words] = this.asked();
      const ask = { reading: found.reading, segment: frame.segment, token };
      this.draw(await post("blank", { ...ask, ...request }), token, words);
    } catch (error) {
      this.result.replaceChildren(h("p", { class: "error" }, error.message));
    }
    this.start.disabled = false;
  }

  draw(answer, token, words) {
    const [before, after] = answer.means;
    const known = before !== null;
    const sign = after < before ? "−" : "+";
    const stretch = this.whole ? "the whole text" : "the rest of the segment";
    const loss = known
      ? `Loss over ${stretch}: ${number(before)} → ${number(after)} bits ` +
        `(${sign}${number(Math.abs(after - before))}).`
      : `No answer is known in ${stretch}.`;
    this.result.replaceChildren(
      ...[
        h("p", {}, h("b", {}, `Without ${words}`), ` (${answer.how}). `, loss),
        this.table(answer.answers, token),
        known ? this.most(...answer.bits, answer.first) : null,
      ].filter(Boolean),
    );
  }

  // Probabilities at the token, with and without.
  table(answers, token) {
    const { tokens } = this.reader.found;
    const due = this.reader.known.get(token)?.answer ?? null;
    const cell = (share) =>
      h(
        "td",
        { class: "number" },
        h("span", { class: "meter", "--w": `${100 * share}%` }),
        percent(share),
      );
    return h(
      "table",
      { class: "compared" },
      h("caption", {}, `Predictions at token ${token + 1} ${quoted(tokens[token])}`),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          ["", "whole", "blanked"].map((one) => h("th", { scope: "col" }, one)),
        ),
      ),
      h(
        "tbody",
        {},
        answers.map(([name, before, after]) =>
          h(
            "tr",
            { class: name === due ? "strong" : null },
            h("th", { scope: "row" }, quoted(name), name === due ? " ✓" : null),
            cell(before),
            cell(after),
          ),
        ),
      ),
    );
  }

  most(before, after, first) {
    const { tokens } = this.reader.found;
    const changed = before
      .map((was, place) => ({ place, was, is: after[place] }))
      .filter(({ was, is }) => was !== null && is !== null && Math.abs(is - was) >= 0.05)
      .sort((a, b) => Math.abs(b.is - b.was) - Math.abs(a.is - a.was))
      .slice(0, SHOWN);
    if (!changed.length) return h("p", { class: "quiet" }, "No token changes by 0.05 bits or more.");
    return h(
      "p",
      { class: "quiet" },
      "Changed most: ",
      changed
        .map(
          ({ place, was, is }) =>
            `token ${first + place + 1} ${quoted(tokens[first + place])} ${number(was)} → ${number(is)} bits`,
        )
        .join("; "),
      ".",
    );
  }
}
