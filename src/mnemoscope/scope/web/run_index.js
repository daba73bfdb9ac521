// What the folder of runs holds.

import { get } from "./api.js";
import { KINDS, models } from "./choice.js";
import { h } from "./dom.js";
import { badge, complaint, watch, where } from "./links.js";
import { RunTable } from "./run_table.js";

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
        one.by ? ` · on ${one.by}, since ${new Date(one.since).toLocaleString()}` : "",
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

function section(title, kind, ...content) {
  return h("section", { class: kind }, h("h2", {}, title), ...content);
}

function otherModels(found) {
  const entries = Object.keys(KINDS).flatMap((kind) =>
    models(found, kind).map(([id, name]) =>
      h(
        "li",
        {},
        h("a", { href: watch(id) }, name),
        h("span", { class: "quiet" }, ` ${KINDS[kind]}`),
      ),
    ),
  );
  return entries.length ? section("Models", "models", h("ul", { class: "plain" }, entries)) : null;
}

function shippedResults(found) {
  if (!found.shipped.length) return null;
  const entries = found.shipped.map((one) =>
    h(
      "li",
      {},
      one.problem ? one.id : h("a", { href: where("shipped", one.id) }, one.id),
      h("span", { class: "quiet" }, ` ${one.question}`),
      complaint(one),
    ),
  );
  return section("Shipped with mnemoscope", "shipped", h("ul", { class: "plain many" }, entries));
}

// Runs of each study, then those of none.
function grouped(found) {
  const groups = found.studies.map((one) => {
    const within = one.id === "." ? "runs/" : `${one.id}/runs/`;
    const runs = found.runs.filter((run) => run.id.startsWith(within));
    const name = one.id === "." ? one.study : one.id;
    return { name, href: where("study", one.id), within, runs };
  });
  const inStudy = new Set(groups.flatMap((group) => group.runs));
  const rest = found.runs.filter((run) => !inStudy.has(run));
  const alone = { name: rest.length === found.runs.length ? "" : "of no study", within: "", runs: rest };
  return [...groups, alone].filter((group) => group.runs.length);
}

function runs(found, query) {
  if (!found.runs.length) return null;
  return section("Runs", "all-runs", new RunTable("Runs", query, "#/").show(grouped(found)));
}

export async function runIndex(name, query, signal) {
  const found = await get("run_index");
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
  const held = ["studies", "runs", ...Object.keys(KINDS)];
  return [
    h(
      "header",
      {},
      h("h1", {}, "What do they remember?"),
      h(
        "p",
        { class: "question" },
        `Studies, models and runs in the folder “${found.root}”. Open a study, compare runs, or `,
        "watch a model read.",
      ),
    ),
    held.some((kind) => found[kind].length)
      ? null
      : h(
          "p",
          { class: "empty" },
          "This folder is empty. Train something, and it will appear here: ",
          h("code", {}, "mnemoscope train characters --memory lstm"),
        ),
    found.studies.length
      ? section(
          "Studies",
          "studies",
          h(
            "div",
            { class: "cards" },
            found.studies.map((one) => card(one, signal)),
          ),
        )
      : null,
    otherModels(found),
    runs(found, query),
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
