// Talk to a model about a document longer than its window.
//
// The document is read once; every reply shows, word by word, how much of the attention behind it
// fell on the document, and on which part.

import { get, post } from "./api.js";
import { SAMPLE, choices, field, select } from "./choice.js";
import { bytes, h, percent } from "./dom.js";

const QUESTION = [
  "A model reads a document window by window, then you ask. See what it holds in how many bytes,",
  "where attention fell behind every word, and what it would say without the document.",
].join(" ");

const MEMORIES = [
  ["infinite", "∞-former, sticky, untrained"],
  ["transformer_xl", "Transformer-XL: the last keys"],
  ["none", "none: the window alone"],
];

// Only a run of the task dialogue has turns, and documents by name are read by nobody.
function talkers(found) {
  const runs = found.runs.filter((run) => run.task === "dialogue");
  return choices({ ...found, runs, documents: [] });
}

// A bare model has no memory of its own: one is chosen here.
const bare = (identity) => /^(huggingface|given):/.test(identity);

class Chat {
  constructor(found, query) {
    const groups = talkers(found);
    this.nothing = groups.length === 0;
    const first = query.get("model") ?? groups[0]?.[1][0][0] ?? "";
    this.model = select("Model", groups, first);
    this.memory = h(
      "select",
      { "aria-label": "Memory" },
      MEMORIES.map(([value, name]) => h("option", { value }, name)),
    );
    this.memoryField = field("Memory", this.memory);
    this.document = h(
      "textarea",
      { rows: 8, maxlength: 20000, spellcheck: "false", "aria-label": "Document" },
      SAMPLE,
    );
    this.file = h("input", { type: "file", accept: ".txt,.md", "aria-label": "Document from a file" });
    this.question = h("input", { type: "text", maxlength: 2000, "aria-label": "Question" });
    this.error = h("div", { role: "alert" });
    this.facts = h("div", { class: "facts" });
    this.turns = h("ol", { class: "turns", "aria-live": "polite" });
    this.key = null;
    this.busy = false;
    this.model.addEventListener("change", () => this.chosen());
    this.memory.addEventListener("change", () => (this.key = null));
    this.file.addEventListener("change", () =>
      this.guard(async () => {
        const [file] = this.file.files;
        if (file) this.document.value = (await file.text()).slice(0, 20000);
      }),
    );
    this.chosen();
  }

  chosen() {
    this.key = null;
    this.memoryField.hidden = !bare(this.model.value);
    // A run on the made-up corpus knows its own words only, and makes a document up.
    if (!bare(this.model.value) && this.document.value === SAMPLE) this.document.value = "";
    history.replaceState(null, "", `#/chat?${new URLSearchParams({ model: this.model.value })}`);
  }

  // One thing at a time; errors become words on the page.
  async guard(work) {
    if (this.busy) return;
    this.busy = true;
    this.error.replaceChildren();
    this.turns.setAttribute("aria-busy", "true");
    try {
      await work();
    } catch (error) {
      this.error.replaceChildren(h("p", { class: "error" }, error.message));
    }
    this.turns.setAttribute("aria-busy", "false");
    this.busy = false;
  }

  read() {
    return this.guard(async () => {
      const text = this.document.value;
      if (this.key === null) {
        const body = { model: this.model.value, document: text };
        if (!this.memoryField.hidden) body.memory = this.memory.value;
        this.about = await post("chat", body);
        this.key = this.about.chat;
        this.tell(this.about);
      } else this.tell(await post("chat_document", { chat: this.key, document: text }));
      this.turns.replaceChildren();
      this.question.focus();
    });
  }

  tell({ read, parts }) {
    const { label, name, quality } = this.about;
    if (!this.document.value.trim()) this.document.value = parts.map((one) => one.text).join("---\n");
    const held =
      read.held === null
        ? "all of it mixed into one state"
        : `${read.held} of its tokens are held by themselves in some layer`;
    this.facts.replaceChildren(
      h("span", {}, h("b", {}, name), ` ${label}`),
      h("span", {}, h("b", {}, String(read.tokens)), ` tokens in ${read.segments} segments`),
      h("span", {}, h("b", {}, bytes(read.nbytes)), ` carried; ${held}`),
      h("span", {}, quality || read.measured || "how good it is was not measured"),
      read.fits ? h("span", {}, "the document fits into one segment") : null,
    );
  }

  say(blank) {
    return this.guard(async () => {
      if (this.key === null) throw new Error("let the model read a document first");
      const reply = await post("chat_say", { chat: this.key, text: this.question.value, blank });
      this.turns.append(turn(reply));
      this.turns.lastChild.scrollIntoView({ block: "nearest" });
    });
  }

  forget() {
    return this.guard(async () => {
      if (this.key === null) return;
      await post("chat_document", { chat: this.key });
      this.turns.replaceChildren(h("li", { class: "quiet" }, "the document is forgotten"));
    });
  }

  view() {
    if (this.nothing) {
      return [
        h(
          "p",
          { class: "empty" },
          "There is nobody to talk to yet. Train one: ",
          h("code", {}, "mnemoscope train dialogue --memory gru"),
        ),
      ];
    }
    const submit = (work) => (event) => {
      event.preventDefault();
      work();
    };
    const button = (name, onclick) =>
      h("button", { type: "button", class: "button", onclick }, name);
    return [
      h(
        "form",
        { class: "choose", onsubmit: submit(() => this.read()) },
        h("div", { class: "row" }, field("Model", this.model), this.memoryField),
        field("Document", this.document),
        h(
          "div",
          { class: "row" },
          field("From a file", this.file),
          h("button", { type: "submit", class: "button" }, "Read"),
          button("Forget", () => this.forget()),
        ),
      ),
      this.error,
      this.facts,
      this.turns,
      h(
        "form",
        { class: "row ask", onsubmit: submit(() => this.say(false)) },
        field("Question", this.question),
        h("button", { type: "submit", class: "button" }, "Ask"),
        button("Ask without the document", () => this.say(true)),
      ),
    ];
  }
}

function turn(reply) {
  const known = reply.words && reply.words.length > 0;
  const words = known ? reply.words.map(word) : reply.text || "(nothing)";
  const parts = reply.parts.slice(0, 3).map(([label, share]) => `${label} ${percent(share)}`);
  const whole = reply.parts.reduce((sum, [, share]) => sum + share, 0);
  let from = `attention on the document ${percent(whole)}: ${parts.join(" · ") || "none"}`;
  if (reply.words === null) from = "this memory mixes all it read: nobody can tell where a word is from";
  return h(
    "li",
    { class: reply.blank ? "turn blank" : "turn" },
    h("p", { class: "asked" }, reply.question),
    h("p", { class: "answer" }, words),
    h("p", { class: "quiet" }, reply.blank ? "without the document" : from),
  );
}

// A word over a bar that is as long as the share of attention on the document.
function word({ word: text, document: share, part, share: most }) {
  const title = `${percent(share)} on the document; most on ${part || "no part"}: ${percent(most)}`;
  return [h("span", { class: "drawn", title, "--share": Math.min(1, share) }, text), " "];
}

export async function chat(name, query) {
  const page = new Chat(await get("run_index"), query);
  return [
    h("header", {}, h("h1", {}, "Talk to it"), h("p", { class: "question" }, QUESTION)),
    ...page.view(),
  ];
}
