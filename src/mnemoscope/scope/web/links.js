// Where things are on the page, and in what state.

import { h } from "./dom.js";

export function where(kind, name) {
  return `#/${kind}/${name.split("/").map(encodeURIComponent).join("/")}`;
}

export function watch(model, other) {
  const query = new URLSearchParams(other ? { model, with: other } : { model });
  return `#/live?${query}`;
}

export function badge(item) {
  const word = item.finished ? "finished" : item.running ? "running" : "stopped";
  return h("span", { class: `badge ${word}` }, word);
}

// Why nothing more can be said of a run or a study.
export function complaint(item) {
  return item.problem ? h("p", { class: "error" }, item.problem) : null;
}
