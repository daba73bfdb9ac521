// Choose a model or two and a text, let them read it, and step through what they saw.
//
// The address says what is shown: model, with, document, text, size (tokens per segment), segment,
// token, part and head (numbers count from 1). Whoever opens it sees the same.

import { get, post } from "./api.js";
import { SAMPLE, choices, field, select } from "./choice.js";
import { h } from "./dom.js";
import { Player } from "./player.js";
import { Reader } from "./reader.js";

const QUESTION = [
  "A model reads a text segment by segment. See what its memory holds, what it predicts, and",
  "what it would predict without a part of its memory.",
].join(" ");

class Live {
  constructor(found, query, signal) {
    this.found = found;
    const groups = choices(found);
    const first = query.get("model") ?? groups[0]?.[1][0][0] ?? "";
    const other = query.get("with") ?? "";
    this.model = select("Model", groups, first);
    this.other = select("Compare with", groups, other, "nothing");
    this.twin = h("option", {}, "the same model before training");
    this.other.children[0].after(this.twin);
    this.offerTwin();
    this.other.value = other;
    this.document = h("select", { "aria-label": "Document" });
    this.documentField = h("div", { hidden: true }, field("Document", this.document));
    this.hint = h("p", { class: "quiet hint", id: "text-hint" });
    this.text = h("textarea", {
      rows: 6,
      spellcheck: "false",
      maxlength: 20000,
      "aria-label": "Text to read",
      "aria-describedby": "text-hint",
    });
    this.segment = h("input", {
      type: "number",
      min: 1,
      max: 256,
      value: 32,
      "aria-label": "Tokens per segment",
    });
    this.segmentField = field("Tokens per segment", this.segment);
    this.start = h("button", { type: "submit", class: "button" }, "Read");
    this.error = h("div", { role: "alert" });
    this.stage = h("div", { class: "stage" });
    this.books = this.textChoice();
    this.readers = [];
    this.shown = null; // what was asked for when the text was read
    for (const one of [this.model, this.other])
      one.addEventListener("change", () => {
        this.shown = null;
        this.address();
      });
    this.model.addEventListener("change", () => this.choose());
    addEventListener("keydown", (event) => this.player?.shortcut(event), { signal });
    signal.addEventListener("abort", () => this.player?.pause());
    this.nothing = groups.length === 0;
    this.question = h("p", { class: "question" }, QUESTION);
  }

  textChoice() {
    const names = this.found.texts;
    if (!names.length) return null;
    const book = h(
      "select",
      { "aria-label": "Text from the folder" },
      h("option", { value: "" }, "choose …"),
      names.map((name) => h("option", { value: name }, name)),
    );
    const place = h("input", {
      type: "range",
      min: 0,
      max: 100,
      value: 0,
      "aria-label": "Where in the text, in per cent",
    });
    const fetchPassage = () =>
      this.guard(async () => {
        if (!book.value) return;
        const found = await get("text", { name: book.value, start: Number(place.value) / 100 });
        this.text.value = found.text;
      });
    book.addEventListener("change", fetchPassage);
    place.addEventListener("change", fetchPassage);
    return h("div", { class: "books" }, field("From a file", book), field("Where in it", place));
  }

  // The form folds away once a text is read.
  form() {
    if (this.nothing) {
      return h(
        "p",
        { class: "empty" },
        "There is no model here yet. Train one: ",
        h("code", {}, "mnemoscope train characters --memory lstm"),
      );
    }
    this.summary = h("summary", {}, "Model and text");
    this.fold = h(
      "details",
      {
        class: "choose",
        open: true,
        ontoggle: () => (this.question.hidden = !this.fold.open),
      },
      this.summary,
      h(
        "form",
        {
          onsubmit: (event) => {
            event.preventDefault();
            this.read();
          },
        },
        h(
          "div",
          { class: "row" },
          field("Model", this.model),
          field("Compare with", this.other),
          this.documentField,
        ),
        field("Text", this.text),
        this.hint,
        h("div", { class: "row" }, this.books, this.segmentField, this.start),
      ),
    );
    return this.fold;
  }

  // Errors become words on the page.
  async guard(work) {
    this.error.replaceChildren();
    try {
      await work();
    } catch (error) {
      this.error.replaceChildren(h("p", { class: "error" }, error.message));
    }
  }

  address() {
    const query = new URLSearchParams({ model: this.model.value });
    if (this.other.value) query.set("with", this.other.value);
    if (this.shown) {
      for (const [name, value] of Object.entries(this.shown)) if (value) query.set(name, value);
      query.set("segment", this.player.at + 1);
      const [reader] = this.readers;
      if (reader.text.chosen !== null) query.set("token", reader.text.chosen + 1);
      for (const [name, value] of Object.entries(reader.heads.address)) query.set(name, value);
    }
    history.replaceState(null, "", `#/live?${query}`);
  }

  // A run can be compared with what it was before its first step.
  offerTwin() {
    const chosen = this.other.value === this.twin.value && this.twin.selected;
    this.twin.hidden = this.twin.disabled = !this.model.value.startsWith("run:");
    this.twin.value = this.model.value.replace("run:", "untrained:");
    if (chosen) this.other.value = this.twin.hidden ? "" : this.twin.value;
  }

  // A newly chosen model: what it reads, and which documents it knows.
  async choose() {
    this.offerTwin();
    await this.guard(async () => {
      const about = await get("model", { id: this.model.value });
      // An example of one task means nothing to another model.
      if (about.example || !this.text.value || this.example) this.text.value = about.example || SAMPLE;
      this.example = Boolean(about.example);
      this.segment.value = about.segment;
      this.segmentField.hidden = about.kind !== "stream";
      const hint = about.hint ?? "";
      this.hint.textContent = hint && `${hint[0].toUpperCase()}${hint.slice(1)}`.replace(/\.?$/, ".");
      this.documentField.hidden = about.documents.length === 0;
      this.document.replaceChildren(
        ...about.documents.map((name) => h("option", { value: name }, name)),
        h("option", { value: "" }, "none"),
      );
    });
  }

  // A view that was sent: read the same text, and go to the same place.
  async reopen(query) {
    this.text.value = query.get("text");
    this.segment.value = query.get("size") ?? this.segment.value;
    if (!this.documentField.hidden) this.document.value = query.get("document") ?? "";
    const segment = (Number(query.get("segment")) || 1) - 1;
    await this.read(segment, (reader) => {
      reader.heads.set(query.get("part"), query.get("head"));
    });
    const token = Number(query.get("token")) - 1;
    const [reader] = this.readers;
    if (reader?.frame && token >= 0 && token < reader.frame.read) reader.text.choose(token);
  }

  async read(segment = 0, prepare = () => {}) {
    this.player?.pause();
    const within = this.fold.contains(document.activeElement);
    this.start.disabled = true;
    this.start.textContent = "Reading …";
    await this.guard(async () => {
      const document = this.documentField.hidden ? null : this.document.value || null;
      const [text, size] = [this.text.value, Number(this.segment.value) || 32];
      const first = await post("read", { model: this.model.value, text, segment: size, document });
      const moved = () => this.address();
      const readers = [new Reader(first, moved)];
      if (this.other.value) {
        const beside = { model: this.other.value, text, segments: first.segments };
        readers.push(new Reader(await post("read", beside), moved));
        readers[0].pair(readers[1]);
      }
      prepare(readers[0]);
      this.readers = readers;
      const segments = Math.max(...readers.map((one) => one.found.segments));
      this.player = new Player(
        segments,
        (number) => this.show(number),
        (work) => this.guard(work),
      );
      this.stage.replaceChildren(
        this.player.node,
        h(
          "div",
          { class: readers.length > 1 ? "pair" : "single" },
          readers.map((one) => one.node),
        ),
      );
      this.shown = { text, size, document };
      await this.player.go(Math.min(segment, segments - 1));
      this.foldAway();
      // Whoever pressed Read goes on from the text, not from the top of the page.
      if (within) this.readers[0].text.box.focus({ preventScroll: true });
    });
    this.start.disabled = false;
    this.start.textContent = "Read";
  }

  async show(number) {
    this.stage.setAttribute("aria-busy", "true");
    // Tokens do not always part evenly: one of two may be at the end a segment earlier.
    await Promise.all(
      this.readers.map((one) => one.show(Math.min(number, one.found.segments - 1))),
    );
    if (this.player.at === number) this.stage.setAttribute("aria-busy", "false");
    this.address();
  }

  foldAway() {
    const { about, tokens } = this.readers[0].found;
    const beside = this.readers[1] ? ` and ${this.readers[1].found.about.name}` : "";
    const under = this.shown.document ? `, document ${this.shown.document}` : "";
    this.summary.replaceChildren(
      h("b", {}, `${about.label} · ${about.name}${beside}`),
      `${under} · ${tokens.length} tokens `,
      h("span", { class: "change" }, "change"),
    );
    this.fold.open = false;
  }
}

export async function live(name, query, signal) {
  const page = new Live(await get("run_index"), query, signal);
  const view = [
    h(
      "header",
      {},
      h("h1", {}, "Watch it read"),
      page.question,
    ),
    page.form(),
    page.error,
    page.stage,
  ];
  if (!page.nothing) await page.choose();
  // Once the view is on the page: what is read is drawn to its size.
  if (!page.nothing && query.has("text")) setTimeout(() => page.reopen(query));
  return view;
}
