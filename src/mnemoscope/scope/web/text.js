// The text as tokens: those just read, those still held, and a tint for how much they are used.

import { h } from "./dom.js";

// How a token looks that would be invisible.
function glyph(text) {
  if (text === "") return "∅";
  return text.replaceAll("\n", "⏎\n").replaceAll("\t", "⇥").replaceAll("\r", "␍");
}

// Tokens that some memory still holds as such, and those that live on in a signal or a vector only.
function holding(frame) {
  const held = new Uint8Array(frame.read);
  for (const one of frame.panels) {
    if (one.kind === "slots") {
      for (const first of one.first) held.fill(2, Math.max(0, first), first + one.each);
    } else if (one.kind === "signal") {
      for (let token = 0; token < one.after; token += 1) held[token] ||= 1;
    } else {
      for (let token = 0; token < frame.read; token += 1) held[token] ||= 1;
    }
  }
  return held;
}

let texts = 0;

function sign(kind, words) {
  return h(
    "li",
    {},
    h("span", { class: `token ${kind}`, "aria-hidden": "true" }, "abc"),
    ` ${words}`,
  );
}

export class Text {
  // columns: tokens of a row of pixels; parted: where a target follows its source.
  constructor(tokens, { symbols, columns, parted }, point) {
    this.point = point;
    this.chosen = null;
    this.read = 0;
    this.words = h("p", { class: "tinting quiet" });
    const name = (texts += 1);
    this.spans = tokens.map((text, place) =>
      h(
        "span",
        { class: "token", role: "option", id: `token-${name}-${place}`, "aria-selected": "false" },
        glyph(text),
      ),
    );
    this.box = h(
      "div",
      {
        class: `text${symbols ? " symbols" : ""}${columns ? " pixels" : ""}`,
        "--columns": columns,
        role: "listbox",
        tabindex: "0",
        "aria-label": "Tokens of the text; arrow keys choose one",
        onkeydown: (event) => this.key(event),
        onpointerover: (event) => this.hover(event),
        onpointerleave: () => this.point(this.chosen),
        onclick: (event) => this.click(event),
      },
      parted
        ? [this.spans.slice(0, parted), h("hr"), this.spans.slice(parted)]
        : this.spans,
    );
    this.signs = h("ul", { class: "signs" });
    this.node = h("div", {}, this.words, this.box, this.signs);
  }

  place(event) {
    const span = event.target.closest?.(".token");
    const place = span ? this.spans.indexOf(span) : -1;
    return place >= 0 && place < this.read ? place : null;
  }

  hover(event) {
    const place = this.place(event);
    if (place !== null && event.pointerType !== "touch") this.point(place);
  }

  click(event) {
    const place = this.place(event);
    this.choose(place === this.chosen ? null : place);
  }

  // A token stays chosen when the pointer leaves; ``followed`` when a partner was told to.
  choose(place, followed = false) {
    if (this.chosen !== null) this.spans[this.chosen].setAttribute("aria-selected", "false");
    this.chosen = place;
    if (place === null) this.box.removeAttribute("aria-activedescendant");
    else {
      this.spans[place].setAttribute("aria-selected", "true");
      this.box.setAttribute("aria-activedescendant", this.spans[place].id);
      this.reveal(place);
    }
    if (!followed) this.chose?.(place);
    this.point(place);
  }

  // Scrolls the box, never the page.
  reveal(place) {
    const span = this.spans[place];
    const top = span.offsetTop - this.box.offsetTop;
    if (
      top < this.box.scrollTop ||
      top + span.offsetHeight > this.box.scrollTop + this.box.clientHeight
    )
      this.box.scrollTop = Math.max(0, top - this.box.clientHeight / 2);
  }

  key(event) {
    const last = this.read - 1;
    const now = this.chosen ?? last + 1;
    const moves = {
      ArrowLeft: now - 1,
      ArrowRight: now + 1,
      ArrowUp: now - 10,
      ArrowDown: now + 10,
      Home: 0,
      End: last,
    };
    if (event.key === "Escape") this.choose(null);
    else if (event.key in moves) this.choose(Math.min(last, Math.max(0, moves[event.key])));
    else return;
    event.preventDefault();
  }

  show(frame) {
    this.read = frame.read;
    if (this.chosen !== null && this.chosen >= frame.read) this.choose(null);
    const held = holding(frame);
    const mixed = frame.panels.some((one) => one.kind === "slots");
    const carries = frame.panels.length > 0; // an encoder holds nothing, and loses nothing
    this.spans.forEach((span, place) => {
      span.classList.toggle("new", place >= frame.first && place < frame.read);
      span.classList.toggle("unread", place >= frame.read);
      span.classList.toggle("faint", mixed && place < frame.read && held[place] === 1);
      span.classList.toggle("gone", carries && place < frame.read && held[place] === 0);
    });
    const some = (name) => this.spans.some((span) => span.classList.contains(name));
    this.signs.replaceChildren(
      ...[
        some("unread") || frame.first ? sign("new", "this segment") : null,
        some("faint") ? sign("faint", "in the signal only") : null,
        some("gone") ? sign("gone", "no longer in the state") : null,
        some("unread") ? sign("unread", "not read yet") : null,
      ].filter(Boolean),
    );
    this.reveal(Math.min(frame.read, this.spans.length) - 1);
  }

  // Which tokens are tinted how strongly, by whom, and what that means.
  tint(frame, token, who) {
    const width = frame.read;
    const shares = new Float32Array(this.spans.length);
    let words = `Tint: share of each token in ${who}, mean over this segment.`;
    if (token !== null && token >= frame.first) {
      const row = token - frame.first;
      shares.set(frame.weights.subarray(row * width, (row + 1) * width));
      words = `Tint: share of each token in ${who}, at the chosen token.`;
    } else if (token !== null) {
      for (let row = 0; row < frame.new; row += 1)
        shares[frame.first + row] = frame.weights[row * width + token];
      words = `Tint: share of the chosen token in ${who}, at each token of this segment.`;
    } else {
      for (let row = 0; row < frame.new; row += 1)
        for (let at = 0; at < width; at += 1)
          shares[at] += frame.weights[row * width + at] / frame.new;
    }
    const most = Math.max(...shares, 1e-9);
    this.spans.forEach((span, place) => {
      span.style.setProperty("--w", Math.sqrt(shares[place] / most).toFixed(3));
      span.classList.toggle("chosen", place === token);
    });
    this.words.textContent = frame.parts.length
      ? words
      : "Which tokens this memory uses cannot be told.";
  }
}
