// An episode of a task in words: what it wrote, what it asked, what the model said; by age.

import { h, number } from "./dom.js";

export class Episode {
  // phrases [{first, end, kind, words, source}]; streams: whether tokens grow old while others
  // are read; choose(token) when somebody points at one.
  constructor(phrases, streams, choose) {
    this.phrases = phrases;
    this.oldest = Math.max(2, ...phrases.map((one) => one.end)) - 1;
    this.items = phrases.map((one) =>
      h("li", { class: `phrase ${one.kind}`, onclick: () => choose(one.end - 1) }, one.words),
    );
    this.score = h("p", { class: "score quiet", role: "status" });
    // Where no answer was read at a single token, there are no ages to tell apart.
    this.aged = streams && phrases.some((one) => one.source !== null);
    this.node = h(
      "section",
      { class: "episode", "aria-label": "The episode in words" },
      h("ol", {}, this.items),
      h(
        "p",
        { class: "key", hidden: !this.aged },
        h("span", {}, "1"),
        h("span", { class: "ramp", "aria-hidden": "true" }),
        h("span", {}, this.oldest),
        h("span", { class: "quiet" }, "tokens ago; of a question: since its answer was read"),
      ),
      this.score,
    );
  }

  // known: token -> {said, answer}, as far as frames have told.
  show(read, known) {
    let [right, asked] = [0, 0];
    this.phrases.forEach((one, place) => {
      const item = this.items[place];
      const due = known.get(one.end - 1);
      const told = one.kind === "ask" && one.end <= read && due?.said;
      item.classList.toggle("unread", one.first >= read);
      item.classList.remove("right", "wrong");
      const since = one.kind === "ask" && one.source !== null ? one.end - 1 - one.source : null;
      const age = since ?? (one.kind === "write" ? read - one.end : null);
      item.classList.toggle("aged", this.aged && age !== null && one.first < read);
      item.style.setProperty("--age", this.depth(age ?? 0).toFixed(3));
      const words = [one.words];
      if (told) {
        const [said, share] = due.said[0];
        const correct = due.answer === null ? null : said === due.answer;
        if (correct !== null) {
          asked += 1;
          right += correct ? 1 : 0;
          item.classList.add(correct ? "right" : "wrong");
        }
        const mark = correct === null ? "" : correct ? " ✓" : ` ✗ (${due.answer.trim() || "␣"})`;
        words.push(h("b", {}, ` → said ${said.trim() || "␣"}${mark}`));
        item.title = `${number(100 * share)} %${since === null ? "" : `, the answer was read ${since} tokens ago`}`;
      }
      item.replaceChildren(...words);
    });
    this.score.textContent = asked ? `${right} of ${asked} answers right so far` : "";
  }

  // Ages from 0 to 1, on a scale of logarithms.
  depth(age) {
    return Math.log2(1 + Math.max(0, age)) / Math.log2(1 + this.oldest);
  }

  mark(token) {
    this.phrases.forEach((one, place) =>
      this.items[place].classList.toggle(
        "chosen",
        token !== null && token >= one.first && token < one.end,
      ),
    );
  }
}
