// Runs in groups: sorted, filtered, and the curves of chosen ones over each other.

import { get } from "./api.js";
import { lines } from "./chart.js";
import { h, number } from "./dom.js";
import { badge, complaint, watch, where } from "./links.js";

// As many curves as there are colours; a group of more runs begins folded.
const MOST = 8;
const FOLDED = 12;

const CURVES = {
  valid_loss: "held-out loss, nats",
  loss: "training loss, nats",
  valid_accuracy: "held-out accuracy",
};

const date = (seconds) => new Date(1000 * seconds).toLocaleString("sv").slice(0, 16);

const COLUMNS = [
  { key: "id", title: "Run", value: (run) => run.id },
  { key: "memory", title: "Memory", value: (run) => run.label },
  { key: "task", title: "Task", value: (run) => run.task },
  { key: "steps", title: "Steps", number: true, value: (run) => run.step },
  { key: "loss", title: "Loss", number: true, value: (run) => run.loss ?? Infinity },
  { key: "date", title: "Date", number: true, value: (run) => run.written },
];

const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

export class RunTable {
  // groups [{name, href, within, runs}]; query says what was sorted, filtered and chosen.
  constructor(caption, query, path) {
    this.path = path;
    const sort = query.get("sort") ?? "";
    this.down = sort.startsWith("-");
    this.sort = COLUMNS.some((one) => one.key === sort.replace("-", ""))
      ? sort.replace("-", "")
      : "id";
    this.chosen = new Set(query.getAll("run"));
    this.curve = query.get("curve") in CURVES ? query.get("curve") : null;
    this.folded = new Map();
    this.cache = new Map();
    this.filter = h("input", {
      type: "search",
      value: query.get("filter") ?? "",
      placeholder: "name, memory or task",
      "aria-label": "Filter runs",
      oninput: () => this.draw(),
    });
    this.kind = h(
      "select",
      { "aria-label": "Curve", onchange: () => this.choose() },
      Object.entries(CURVES).map(([value, name]) => h("option", { value }, name)),
    );
    this.curves = h("div", { class: "overlay", "aria-live": "polite" });
    this.table = h("table", { class: "runs" });
    this.count = h("p", { class: "quiet", role: "status" });
    this.node = h(
      "div",
      {},
      h("div", { class: "row filter" }, this.filter, this.count),
      this.curves,
      h(
        "div",
        { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
        this.table,
      ),
    );
  }

  show(groups) {
    this.groups = groups;
    this.draw();
    this.drawCurves();
    return this.node;
  }

  // A view of runs can be sent too.
  address() {
    const query = new URLSearchParams();
    if (this.filter.value) query.set("filter", this.filter.value);
    if (this.sort !== "id" || this.down) query.set("sort", `${this.down ? "-" : ""}${this.sort}`);
    for (const run of this.chosen) query.append("run", run);
    if (this.curve) query.set("curve", this.curve);
    history.replaceState(null, "", `${this.path}${query.size ? `?${query}` : ""}`);
  }

  order(key) {
    this.down = this.sort === key && !this.down;
    this.sort = key;
    this.draw();
    this.address();
    this.table.querySelector(`[data-key=${key}]`).focus();
  }

  matches(run) {
    const words = this.filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const all = `${run.id} ${run.label} ${run.memory} ${run.task}`.toLowerCase();
    return words.every((word) => all.includes(word));
  }

  draw() {
    const column = COLUMNS.find((one) => one.key === this.sort);
    const direction = this.down ? -1 : 1;
    const groups = this.groups.map((group) => ({
      ...group,
      shown: group.runs
        .filter((run) => this.matches(run))
        .sort((a, b) => direction * compare(column.value(a), column.value(b))),
    }));
    const [all, shown] = ["runs", "shown"].map((name) =>
      groups.reduce((sum, group) => sum + group[name].length, 0),
    );
    this.count.textContent = shown === all ? `${all} runs` : `${shown} of ${all} runs`;
    this.table.replaceChildren(
      this.head(),
      ...groups.filter((group) => group.shown.length).map((group) => this.body(group)),
    );
    if (this.filter === document.activeElement) this.address();
  }

  head() {
    const cells = COLUMNS.map((one) => {
      const sorted = one.key === this.sort;
      return h(
        "th",
        {
          scope: "col",
          class: one.number ? "number" : null,
          "aria-sort": sorted ? (this.down ? "descending" : "ascending") : null,
        },
        h(
          "button",
          { type: "button", class: "sort", "data-key": one.key, onclick: () => this.order(one.key) },
          `${one.title}${sorted ? (this.down ? " ↓" : " ↑") : ""}`,
        ),
      );
    });
    return h(
      "thead",
      {},
      h("tr", {}, h("th", { scope: "col" }, h("span", { class: "hidden" }, "Curve")), cells, h("th")),
    );
  }

  body(group) {
    const open =
      Boolean(this.filter.value) ||
      !(this.folded.get(group.name) ?? (group.href && group.runs.length > FOLDED));
    const toggle = () => {
      this.folded.set(group.name, open);
      this.draw();
      [...this.table.querySelectorAll(".fold")].find((one) => one.dataset.name === group.name)?.focus();
    };
    // Losses of different tasks cannot be compared.
    const losses = group.href ? group.shown.map((run) => run.loss) : [];
    const known = losses.filter((loss) => loss !== null);
    const best = known.length ? `, lowest loss ${number(Math.min(...known))}` : "";
    const title = h(
      "tr",
      { class: "group" },
      h(
        "th",
        { scope: "rowgroup", colspan: COLUMNS.length + 2 },
        h(
          "button",
          {
            type: "button",
            class: "fold",
            "data-name": group.name,
            "aria-expanded": String(open),
            onclick: toggle,
          },
          `${open ? "▾" : "▸"} ${group.name}`,
        ),
        h("span", { class: "quiet" }, ` ${group.shown.length} runs${best}`),
        group.href ? h("a", { href: group.href, class: "quiet" }, "study") : null,
      ),
    );
    const rows = open ? group.shown.map((run) => this.row(run, group.within)) : [];
    return h("tbody", {}, group.name ? title : null, rows);
  }

  row(run, within) {
    const name = run.id.startsWith(within) ? run.id.slice(within.length) : run.id;
    const steps = run.finished ? `${run.steps ?? run.step}` : `${run.step} / ${run.steps ?? "?"}`;
    const loss = run.loss === null ? "–" : number(run.loss);
    return h(
      "tr",
      {},
      h(
        "td",
        {},
        h("input", {
          type: "checkbox",
          checked: this.chosen.has(run.id),
          "aria-label": `Curve of ${name}`,
          onchange: (event) => this.pick(run.id, event.target),
        }),
      ),
      h("td", {}, h("a", { href: where("run", run.id) }, name), complaint(run)),
      h("td", {}, run.label),
      h("td", {}, run.task),
      h("td", { class: "number" }, steps),
      h("td", { class: "number", title: run.tested ? "held out" : "training" }, loss),
      h("td", { class: "number" }, date(run.written)),
      h("td", {}, run.openable ? h("a", { href: watch(`run:${run.id}`) }, "watch") : badge(run)),
    );
  }

  pick(id, box) {
    if (box.checked && this.chosen.size >= MOST) {
      box.checked = false;
      this.curves.prepend(h("p", { class: "error" }, `Choose at most ${MOST} runs.`));
      return;
    }
    if (box.checked) this.chosen.add(id);
    else this.chosen.delete(id);
    this.address();
    this.drawCurves();
  }

  choose() {
    this.curve = this.kind.value;
    this.address();
    this.drawCurves();
    this.kind.focus();
  }

  async drawCurves() {
    const asked = (this.asked = [...this.chosen]);
    if (!asked.length) {
      this.curves.replaceChildren();
      return;
    }
    try {
      const found = await Promise.all(asked.map((id) => this.fetched(id)));
      if (asked !== this.asked) return;
      this.curves.replaceChildren(...this.chart(asked, found));
    } catch (error) {
      this.curves.replaceChildren(h("p", { class: "error" }, error.message));
    }
  }

  // A run that goes on is asked for again.
  async fetched(id) {
    const known = this.cache.get(id);
    if (known?.finished) return known;
    this.cache.set(id, await get("run", { id }));
    return this.cache.get(id);
  }

  chart(ids, found) {
    // Unless somebody chose: held-out losses, if there are enough of them for a curve.
    const tested = found.some((run) => run.curves.valid_loss?.length > 1);
    const curve = (this.kind.value = this.curve ?? (tested ? "valid_loss" : "loss"));
    const short = this.groups.map((one) => one.within).find((one) => ids.every((id) => id.startsWith(one)));
    const series = found
      .map((run, place) => ({
        name: ids[place].slice(short?.length ?? 0),
        points: run.curves[curve] ?? [],
        style: place,
      }))
      .filter((one) => one.points.length)
      .map(({ points, ...one }) => ({
        ...one,
        x: points.map((point) => point[0]),
        y: points.map((point) => point[1]),
      }));
    const without = ids.length - series.length;
    return [
      h("label", { class: "field line" }, h("span", {}, "Curve"), this.kind),
      series.length
        ? lines({ label: `${CURVES[curve]} by step`, series, xTitle: "step", named: true })
        : null,
      without ? h("p", { class: "quiet" }, `${without} of the chosen runs logged none of it.`) : null,
    ].filter(Boolean);
  }
}
