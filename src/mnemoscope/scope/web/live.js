// Choose a model or two and a text, let them read it, and step through what they saw.

import { get, post } from "./api.js";
import { SAMPLE, choices, field, select } from "./choice.js";
import { h } from "./dom.js";
import { Reader } from "./reader.js";

class Live {
  constructor(found, query, signal) {
    this.found = found;
    this.signal = signal;
    const groups = choices(found);
    const first = query.get("model") ?? groups[0]?.[1][0][0] ?? "";
    const other = query.get("with") ?? "";
    this.model = select("Model", groups, first);
    this.other = select("Beside it", groups, other, "nothing");
    this.twin = h("option", {}, "its untrained twin");
    this.other.children[0].after(this.twin);
    this.offerTwin();
    this.other.value = other;
    this.document = h("select", { "aria-label": "Document" });
    this.documentField = h("div", { hidden: true }, field("Under the document", this.document));
    this.text = h("textarea", {
      rows: 6,
      spellcheck: "false",
      maxlength: 20000,
      "aria-label": "Text to read",
    });
    this.segment = h("input", {
      type: "number",
      min: 1,
      max: 256,
      value: 32,
      "aria-label": "Tokens a segment",
    });
    this.start = h("button", { type: "submit", class: "button" }, "Read");
    this.error = h("div", { role: "alert" });
    this.stage = h("div", { class: "stage" });
    this.books = this.textChoice();
    this.model.addEventListener("change", () => this.choose(), { signal });
    this.other.addEventListener("change", () => this.address(), { signal });
    addEventListener("keydown", (event) => this.shortcut(event), { signal });
    signal.addEventListener("abort", () => this.pause());
    this.nothing = groups.length === 0;
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
    return h("div", { class: "books" }, field("From a text", book), field("From where", place));
  }

  form() {
    if (this.nothing) {
      return h(
        "p",
        { class: "empty" },
        "There is no model here yet. Train one: ",
        h("code", {}, "mnemoscope train characters --memory lstm"),
      );
    }
    return h(
      "form",
      {
        class: "choose",
        onsubmit: (event) => {
          event.preventDefault();
          this.read();
        },
      },
      h(
        "div",
        { class: "row" },
        field("Model", this.model),
        field("Beside it", this.other),
        this.documentField,
      ),
      field("Text", this.text),
      h("div", { class: "row" }, this.books, field("Tokens a segment", this.segment), this.start),
    );
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
    this.address();
    await this.guard(async () => {
      const about = await get("model", { id: this.model.value });
      if (about.symbols !== null) this.text.value = about.example;
      else if (!this.text.value || /^[\d\s]*$/.test(this.text.value)) this.text.value = SAMPLE;
      this.documentField.hidden = about.documents.length === 0;
      this.document.replaceChildren(
        ...about.documents.map((name) => h("option", { value: name }, name)),
        h("option", { value: "" }, "none"),
      );
    });
  }

  async read() {
    this.pause();
    this.start.disabled = true;
    this.start.textContent = "Reading …";
    await this.guard(async () => {
      const document = this.documentField.hidden ? null : this.document.value || null;
      const ask = {
        model: this.model.value,
        text: this.text.value,
        segment: Number(this.segment.value) || 32,
        document,
      };
      const first = await post("read", ask);
      this.readers = [new Reader(first)];
      if (this.other.value) {
        const beside = { model: this.other.value, text: ask.text, segments: first.segments };
        this.readers.push(new Reader(await post("read", beside)));
        this.readers[0].pair(this.readers[1]);
      }
      this.segments = Math.max(...this.readers.map((one) => one.found.segments));
      this.stage.replaceChildren(
        this.toolbar(),
        h(
          "div",
          { class: this.readers.length > 1 ? "pair" : "single" },
          this.readers.map((one) => one.node),
        ),
      );
      await this.go(0);
    });
    this.start.disabled = false;
    this.start.textContent = "Read";
  }

  toolbar() {
    this.slider = h("input", {
      type: "range",
      min: 1,
      max: this.segments,
      value: 1,
      "aria-label": "Segment",
    });
    this.slider.addEventListener("input", () => this.move(Number(this.slider.value) - 1));
    this.counter = h("output", { class: "counter" });
    this.play = h(
      "button",
      { type: "button", class: "button quiet", onclick: () => this.toggle() },
      "Play",
    );
    const step = (label, by, key) =>
      h(
        "button",
        {
          type: "button",
          class: "button quiet",
          "aria-label": label,
          title: `${label} (${key})`,
          onclick: () => this.move(this.at + by),
        },
        by < 0 ? "←" : "→",
      );
    return h(
      "div",
      { class: "toolbar", role: "group", "aria-label": "Segments" },
      step("Segment before", -1, "p"),
      this.slider,
      step("Next segment", 1, "n"),
      this.play,
      this.counter,
    );
  }

  move(number) {
    this.pause();
    return this.guard(() => this.go(number));
  }

  async go(number) {
    if (number < 0 || number >= this.segments) return;
    this.at = number;
    this.slider.value = number + 1;
    this.counter.textContent = `segment ${number + 1} of ${this.segments}`;
    this.stage.setAttribute("aria-busy", "true");
    // Tokens do not always part evenly: one of two may be at the end a segment earlier.
    await Promise.all(
      this.readers.map((one) => one.show(Math.min(number, one.found.segments - 1))),
    );
    if (this.at === number) this.stage.setAttribute("aria-busy", "false");
  }

  toggle() {
    if (this.timer) {
      this.pause();
      return;
    }
    this.play.textContent = "Pause";
    const next = () =>
      this.guard(async () => {
        if (this.at + 1 >= this.segments) {
          this.pause();
          return;
        }
        await this.go(this.at + 1);
        if (this.timer) this.timer = setTimeout(next, 700);
      });
    this.timer = setTimeout(next, 0);
  }

  pause() {
    clearTimeout(this.timer);
    this.timer = null;
    if (this.play) this.play.textContent = "Play";
  }

  shortcut(event) {
    const typing = event.target.closest("input, textarea, select");
    if (typing || !this.readers || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "n") this.move(this.at + 1);
    if (event.key === "p") this.move(this.at - 1);
  }
}

export async function live(name, query, signal) {
  const page = new Live(await get("run_index"), query, signal);
  if (!page.nothing) await page.choose();
  return [
    h(
      "header",
      {},
      h("h1", {}, "Watch it read"),
      h(
        "p",
        { class: "question" },
        "A text goes in segment by segment. See what each memory holds, and point at a token " +
          "to see who remembers it.",
      ),
    ),
    page.form(),
    page.error,
    page.stage,
  ];
}
