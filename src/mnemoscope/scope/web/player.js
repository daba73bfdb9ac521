// The segments of a text: go to one, step, or let them play.

import { h } from "./dom.js";

// Milliseconds between two segments that play.
const PAUSE = 700;

export class Player {
  // show(number) draws a segment; guard(work) turns its errors into words on the page.
  constructor(segments, show, guard) {
    [this.segments, this.show, this.guard] = [segments, show, guard];
    this.at = 0;
    this.slider = h("input", {
      type: "range",
      min: 1,
      max: segments,
      value: 1,
      "aria-label": "Segment",
      oninput: () => this.move(Number(this.slider.value) - 1),
    });
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
    this.node = h(
      "div",
      { class: "toolbar", role: "group", "aria-label": "Segments", hidden: segments < 2 },
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
    await this.show(number);
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
        if (this.timer) this.timer = setTimeout(next, PAUSE);
      });
    this.timer = setTimeout(next, 0);
  }

  pause() {
    clearTimeout(this.timer);
    this.timer = null;
    this.play.textContent = "Play";
  }

  shortcut(event) {
    const typing = event.target.closest("input, textarea, select");
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "n") this.move(this.at + 1);
    if (event.key === "p") this.move(this.at - 1);
  }
}
