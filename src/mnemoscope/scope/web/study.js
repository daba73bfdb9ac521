// One study with its page, data and runs; one shipped result; one run with its training curves.

import { file, get } from "./api.js";
import { lines } from "./chart.js";
import { count, h, number } from "./dom.js";
import { badge, complaint, watch, where } from "./links.js";
import { status } from "./run_index.js";
import { RunTable } from "./run_table.js";

const SANDBOX = "allow-scripts allow-downloads";
// Pixels that a page may take up; no report is taller.
const TALLEST = 60_000;

// A report in a sandbox of its own, as tall as it says it is: its figures stand on this page.
function framed(title, src, signal) {
  const frame = h("iframe", { class: "report", title, sandbox: SANDBOX, src });
  addEventListener(
    "message",
    ({ source, data }) => {
      const height = data?.height;
      if (source !== frame.contentWindow || !Number.isFinite(height) || height < 1) return;
      frame.style.height = `${Math.min(Math.ceil(height), TALLEST)}px`;
    },
    { signal },
  );
  const alone = h("a", { href: src, target: "_blank", rel: "noopener" }, "Open it on its own");
  return [frame, h("section", { class: "page" }, frame, h("p", { class: "quiet" }, alone))];
}

function pageOf(study, signal) {
  const at = file(study.id === "." ? "report.html" : `${study.id}/report.html`);
  const [frame, section] = framed(`Page of the study ${study.id}`, at, signal);
  let written = study.written;
  addEventListener(
    "news",
    ({ detail }) => {
      const now = detail.studies.find((one) => one.id === study.id);
      if (!now || now.written === written) return;
      written = now.written;
      frame.src = at;
    },
    { signal },
  );
  return section;
}

// A result that comes with the package.
export async function shipped(name, query, signal) {
  const found = await get("shipped", { id: name });
  const at = `/shipped/${encodeURIComponent(name)}`;
  const [, section] = framed(`Page of the result ${name}`, at, signal);
  return [
    h(
      "header",
      {},
      h("p", { class: "quiet" }, `Shipped with mnemoscope: ${found.of}, made on ${found.date}`),
      h("h1", {}, name),
      h("p", { class: "question" }, found.question),
    ),
    found.problem ? complaint(found) : section,
  ];
}

function filesOf(study) {
  if (!study.figures.length) return null;
  const base = study.id === "." ? "figures" : `${study.id}/figures`;
  const open = { target: "_blank", rel: "noopener" };
  const pictures = study.figures
    .filter((one) => one.formats.some((form) => form !== "csv"))
    .map((one) => {
      const form = one.formats.includes("svg") ? "svg" : "png";
      const source = file(`${base}/${one.name}.${form}`);
      const words = one.name.replaceAll("-", " ");
      return h(
        "a",
        { href: source, ...open },
        h("img", { src: source, alt: words, loading: "lazy" }),
        words,
      );
    });
  const tables = study.figures
    .filter((one) => one.formats.includes("csv"))
    .map((one) =>
      h("li", {}, h("a", { href: file(`${base}/${one.name}.csv`), ...open }, `${one.name}.csv`)),
    );
  return h(
    "section",
    {},
    h("h2", {}, pictures.length ? "Figures and their data" : "Data of the figures"),
    pictures.length ? h("div", { class: "gallery" }, pictures) : null,
    tables.length ? h("ul", { class: "plain many" }, tables) : null,
  );
}

// The runs of a study, looked up again when some have begun or ended.
function runsOf(study, query, signal) {
  const within = study.id === "." ? "runs/" : `${study.id}/runs/`;
  const table = new RunTable("Runs of the study", query, where("study", study.id));
  const node = h("section", {}, h("h2", {}, "Runs"), table.node);
  const draw = (runs) => table.show([{ name: "", within, runs }]);
  let known = `${study.begun} ${study.done}`;
  const follow = async ({ detail }) => {
    const now = detail.studies.find((one) => one.id === study.id);
    if (!now) return;
    // Its first page has been written: draw all of it again.
    if (now.page !== study.page) dispatchEvent(new Event("hashchange"));
    else if (known !== `${now.begun} ${now.done}`) {
      known = `${now.begun} ${now.done}`;
      draw((await get("study", { id: study.id })).runs);
    }
  };
  const complain = (error) => node.append(h("p", { class: "error" }, error.message));
  addEventListener("news", (event) => follow(event).catch(complain), { signal });
  draw(study.runs);
  return node;
}

// The page of a study is long: what stands below it is one step away.
function below(sections) {
  const step = (node) =>
    h(
      "button",
      {
        type: "button",
        class: "link",
        onclick: () => {
          node.scrollIntoView();
          node.querySelector("h2").focus({ preventScroll: true });
        },
      },
      node.querySelector("h2").textContent,
    );
  for (const node of sections) node.querySelector("h2").tabIndex = -1;
  return h("p", { class: "below quiet" }, "Below the page: ", sections.map(step));
}

function configuration(text) {
  return h(
    "section",
    {},
    h("h2", {}, "Configuration"),
    h("pre", { tabindex: "0", "aria-label": "Configuration" }, text),
  );
}

export async function study(name, query, signal) {
  const found = await get("study", { id: name });
  const sections = [
    runsOf(found, query, signal),
    filesOf(found),
    configuration(found.config),
  ].filter(Boolean);
  return [
    h(
      "header",
      {},
      h("h1", {}, found.id === "." ? found.study : found.id),
      h("p", { class: "question" }, found.question),
    ),
    complaint(found),
    status(found, signal),
    found.page ? below(sections) : null,
    found.page
      ? pageOf(found, signal)
      : h("p", { class: "quiet" }, "The page appears when the study is finished."),
    ...sections,
  ].filter(Boolean);
}

const series = (points, name, style) =>
  points && {
    name,
    x: points.map((one) => one[0]),
    y: points.map((one) => one[1]),
    style,
  };

export async function run(name) {
  const found = await get("run", { id: name });
  const { loss, valid_loss: valid, valid_accuracy: accuracy } = found.curves;
  const id = `run:${name}`;
  const losses = [series(loss, "training", 0), series(valid, "held out", 1)].filter(Boolean);
  const parent = name.includes("/runs/") ? name.slice(0, name.lastIndexOf("/runs/")) : null;
  return [
    h(
      "header",
      {},
      parent === null
        ? null
        : h(
            "p",
            { class: "quiet" },
            "of the study ",
            h("a", { href: where("study", parent) }, parent),
          ),
      h("h1", {}, name.split("/").pop()),
      h(
        "p",
        { class: "question" },
        `${found.label} on ${found.task}, ${count(found.step)} of ${found.steps ?? "?"} steps `,
        badge(found),
      ),
      complaint(found),
      found.openable
        ? h(
            "p",
            { class: "actions" },
            h("a", { class: "button", href: watch(id) }, "Watch it read"),
            h(
              "a",
              { class: "button quiet", href: watch(id, `untrained:${name}`) },
              "Compare with before training",
            ),
          )
        : found.problem
          ? null
          : h("p", { class: "quiet" }, "It has no weights yet."),
    ),
    losses.length
      ? h(
          "section",
          {},
          h("h2", {}, "Loss"),
          lines({ label: "Loss by step", series: losses, xTitle: "step", yTitle: "nats per token" }),
        )
      : null,
    accuracy && accuracy.length > 1
      ? h(
          "section",
          {},
          h("h2", {}, "Accuracy"),
          lines({
            label: "Held-out accuracy by step",
            series: [series(accuracy, "held-out accuracy", 1)],
            xTitle: "step",
            yTitle: "held-out accuracy",
          }),
        )
      : accuracy
        ? h("p", {}, `Held-out accuracy: ${number(accuracy[accuracy.length - 1][1])}`)
        : null,
    configuration(found.config),
  ].filter(Boolean);
}
