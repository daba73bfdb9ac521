// What the folder of runs holds.

import { get } from "./api.js";
import { h } from "./dom.js";

export function where(kind, name) {
  return `#/${kind}/${name.split("/").map(encodeURIComponent).join("/")}`;
}

export function watch(model, other) {
  const query = new URLSearchParams(other ? { model, with: other } : { model });
  return `#/live?${query}`;
}

function state(item) {
  if (item.finished) return "finished";
  return item.running ? "running" : "stopped";
}

export function badge(item) {
  const word = state(item);
  return h("span", { class: `badge ${word}` }, word);
}

// Why nothing more can be said of a run or a study.
export function complaint(item) {
  return item.problem ? h("p", { class: "error" }, item.problem) : null;
}

export function bar(done, all, label) {
  return h("progress", { value: done, max: Math.max(all, 1), "aria-label": label });
}

function progressOf(study) {
  if (study.finished) return h("p", { class: "quiet" }, `${study.done} runs`);
  return h(
    "div",
    { class: "far" },
    bar(study.done, study.begun, "runs finished"),
    h("p", { class: "quiet" }, `${study.done} of ${study.begun} runs begun are finished`),
    study.active.map((one) =>
      h(
        "p",
        { class: "quiet active" },
        bar(one.step, one.steps ?? one.step, `steps of ${one.id}`),
        `${one.id.split("/").pop()} · step ${one.step}${one.steps ? ` of ${one.steps}` : ""}`,
      ),
    ),
  );
}

// How far a study is; it follows the news.
export function status(study, signal) {
  const node = h("div", { class: "status" }, badge(study), progressOf(study));
  addEventListener(
    "news",
    ({ detail }) => {
      const now = detail.studies.find((one) => one.id === study.id);
      if (now) node.replaceChildren(badge(now), progressOf(now));
    },
    { signal },
  );
  return node;
}

function card(study, signal) {
  return h(
    "article",
    { class: "card", "data-id": study.id },
    h(
      "h3",
      {},
      h("a", { href: where("study", study.id) }, study.id === "." ? study.study : study.id),
    ),
    h("p", {}, study.question || study.study),
    complaint(study),
    status(study, signal),
  );
}

// ``within`` is a folder that all names begin with.
export function runTable(runs, caption, within = "") {
  const head = ["Run", "Memory", "Task", "Steps", ""].map((title) =>
    h("th", { scope: "col", class: title === "Steps" ? "number" : null }, title),
  );
  const rows = runs.map((run) =>
    h(
      "tr",
      {},
      h(
        "td",
        {},
        h("a", { href: where("run", run.id) }, run.id.slice(within.length)),
        complaint(run),
      ),
      h("td", {}, run.label),
      h("td", {}, run.task),
      h(
        "td",
        { class: "number" },
        run.finished ? `${run.steps ?? run.step}` : `${run.step} / ${run.steps ?? "?"}`,
      ),
      h("td", {}, run.openable ? h("a", { href: watch(`run:${run.id}`) }, "watch") : badge(run)),
    ),
  );
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows)),
  );
}

function models(found) {
  const entries = [
    ...found.given.map((name, place) => [`given:${place}`, name]),
    ...found.huggingface.map((name) => [`huggingface:${name}`, name]),
    ...found.documents.map((name) => [`documents:${name}`, name]),
  ];
  if (!entries.length) return null;
  const kinds = {
    given: "named at the start",
    huggingface: "Hugging Face",
    documents: "document memory",
  };
  return h(
    "section",
    {},
    h("h2", {}, "Models"),
    h(
      "ul",
      { class: "plain" },
      entries.map(([id, name]) =>
        h(
          "li",
          {},
          h("a", { href: watch(id) }, name),
          h("span", { class: "quiet" }, ` ${kinds[id.split(":")[0]]}`),
        ),
      ),
    ),
  );
}

function shippedResults(found) {
  if (!found.shipped.length) return null;
  return h(
    "section",
    { class: "shipped" },
    h("h2", {}, "Shipped with mnemoscope"),
    h(
      "ul",
      { class: "plain" },
      found.shipped.map((one) =>
        h(
          "li",
          {},
          one.problem ? one.id : h("a", { href: where("shipped", one.id) }, one.id),
          h("span", { class: "quiet" }, ` ${one.of} ${one.date}`),
          complaint(one),
        ),
      ),
    ),
  );
}

export async function runIndex(name, query, signal) {
  const found = await get("run_index");
  const inStudy = (run) =>
    found.studies.some((one) => run.id.startsWith(one.id === "." ? "runs/" : `${one.id}/runs/`));
  const alone = found.runs.filter((run) => !inStudy(run));
  let items = null;
  addEventListener(
    "news",
    ({ detail }) => {
      // Something new lies in the folder: draw all of it again.
      if (items !== null && detail.items !== items) dispatchEvent(new Event("hashchange"));
      items = detail.items;
    },
    { signal },
  );
  const nothing =
    !found.studies.length &&
    !found.runs.length &&
    !found.given.length &&
    !found.huggingface.length &&
    !found.documents.length;
  return [
    h(
      "header",
      {},
      h("h1", {}, "What do they remember?"),
      h(
        "p",
        { class: "question" },
        `All that lies in the folder “${found.root}”. Open a study, or watch a model read.`,
      ),
    ),
    nothing
      ? h(
          "p",
          { class: "empty" },
          "Nothing lies here yet. Train something, then it will appear: ",
          h("code", {}, "mnemoscope train characters --memory lstm"),
        )
      : null,
    found.studies.length
      ? h(
          "section",
          {},
          h("h2", {}, "Studies"),
          h(
            "div",
            { class: "cards" },
            found.studies.map((one) => card(one, signal)),
          ),
        )
      : null,
    models(found),
    alone.length ? h("section", {}, h("h2", {}, "Runs"), runTable(alone, "Runs")) : null,
    shippedResults(found),
    found.cut
      ? h(
          "p",
          { class: "error" },
          "There is more in this folder than can be shown: open scope on a folder in it.",
        )
      : null,
  ].filter(Boolean);
}
