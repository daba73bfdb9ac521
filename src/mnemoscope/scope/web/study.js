// One study with its page and pictures, one shipped result, one run with its training curve.

import { file, get } from "./api.js";
import { lines } from "./chart.js";
import { count, h, number } from "./dom.js";
import { badge, complaint, runTable, status, watch, where } from "./run_index.js";

const SANDBOX = "allow-scripts allow-downloads";

function framed(title, src) {
  const frame = h("iframe", { class: "report", title, sandbox: SANDBOX, src });
  const alone = h("a", { href: src, target: "_blank", rel: "noopener" }, "Open it on its own");
  return [frame, h("section", {}, h("h2", {}, "Page"), h("p", {}, alone), frame)];
}

function pageOf(study, signal) {
  const at = file(study.id === "." ? "report.html" : `${study.id}/report.html`);
  const [frame, section] = framed(`Page of the study ${study.id}`, at);
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
export async function shipped(name) {
  const found = await get("shipped", { id: name });
  const [, section] = framed(`Page of the result ${name}`, `/shipped/${encodeURIComponent(name)}`);
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

function picturesOf(study) {
  if (!study.figures.length) return null;
  const base = study.id === "." ? "figures" : `${study.id}/figures`;
  const drawn = study.figures.filter((one) => one.formats.some((form) => form !== "csv"));
  return h(
    "section",
    {},
    h("h2", {}, "Figures"),
    h(
      "div",
      { class: "gallery" },
      drawn.map((one) => {
        const form = one.formats.includes("svg") ? "svg" : "png";
        const source = file(`${base}/${one.name}.${form}`);
        const words = one.name.replaceAll("-", " ");
        return h(
          "a",
          { href: source, target: "_blank", rel: "noopener" },
          h("img", { src: source, alt: words, loading: "lazy" }),
          words,
        );
      }),
    ),
    h(
      "p",
      { class: "quiet" },
      "Data: ",
      study.figures
        .filter((one) => one.formats.includes("csv"))
        .map((one, place) => [
          place ? ", " : "",
          h(
            "a",
            { href: file(`${base}/${one.name}.csv`), target: "_blank", rel: "noopener" },
            `${one.name}.csv`,
          ),
        ]),
    ),
  );
}

// The runs of a study, looked up again when some have begun or ended.
function runsOf(study, signal) {
  const within = study.id === "." ? "runs/" : `${study.id}/runs/`;
  const node = h("section");
  const draw = (runs) =>
    node.replaceChildren(h("h2", {}, "Runs"), runTable(runs, "Runs of the study", within));
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

export async function study(name, query, signal) {
  const found = await get("study", { id: name });
  return [
    h(
      "header",
      {},
      h("h1", {}, found.id === "." ? found.study : found.id),
      h("p", { class: "question" }, found.question),
    ),
    complaint(found),
    status(found, signal),
    found.page
      ? pageOf(found, signal)
      : h("p", { class: "quiet" }, "The page appears when the study is finished."),
    picturesOf(found),
    runsOf(found, signal),
    h("section", {}, h("h2", {}, "Configuration"), h("pre", { tabindex: "0" }, found.config)),
  ].filter(Boolean);
}

function curve(points, name, title) {
  return lines({
    label: `${title} by step`,
    series: [
      {
        name: title,
        x: points.map((one) => one[0]),
        y: points.map((one) => one[1]),
        style: name === "loss" ? 0 : 1,
      },
    ],
    xTitle: "step",
    yTitle: title,
  });
}

export async function run(name) {
  const found = await get("run", { id: name });
  const { loss, valid_loss: valid, valid_accuracy: accuracy } = found.curves;
  const id = `run:${name}`;
  const series = [
    loss && {
      name: "training",
      x: loss.map((one) => one[0]),
      y: loss.map((one) => one[1]),
      style: 0,
    },
    valid && {
      name: "held out",
      x: valid.map((one) => one[0]),
      y: valid.map((one) => one[1]),
      style: 1,
    },
  ].filter(Boolean);
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
              "Beside its untrained twin",
            ),
          )
        : found.problem
          ? null
          : h(
              "p",
              { class: "quiet" },
              found.finished
                ? "It reads whole sentences and carries nothing on: look at it with mnemoscope lens."
                : "It holds no weights yet.",
            ),
    ),
    series.length
      ? h(
          "section",
          {},
          h("h2", {}, "Loss"),
          lines({ label: "Loss by step", series, xTitle: "step", yTitle: "nats a token" }),
        )
      : null,
    accuracy && accuracy.length > 1
      ? h("section", {}, h("h2", {}, "Accuracy"), curve(accuracy, "accuracy", "held-out accuracy"))
      : accuracy
        ? h("p", {}, `Held-out accuracy: ${number(accuracy[accuracy.length - 1][1])}`)
        : null,
    h("section", {}, h("h2", {}, "Configuration"), h("pre", { tabindex: "0" }, found.config)),
  ].filter(Boolean);
}
