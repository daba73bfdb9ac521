// The address after # says which view is shown: #/, #/study/NAME, #/run/NAME, #/shipped/NAME,
// #/live?model=NAME and what live.js adds to it, #/chat?model=NAME.

import { listen } from "./api.js";
import { chat } from "./chat.js";
import { h } from "./dom.js";
import { live } from "./live.js";
import { runIndex } from "./run_index.js";
import { run, shipped, study } from "./study.js";

const view = document.getElementById("view");
let leave = () => {};
let visit = 0;

async function show() {
  const mine = (visit += 1);
  leave();
  leave = () => {};
  const [, path, query] = location.hash.match(/^#?([^?]*)\??(.*)$/s);
  const [, kind = "", ...rest] = path.split("/");
  const name = rest.map(decodeURIComponent).join("/");
  const views = { "": runIndex, live, chat, study, run, shipped };
  document.body.dataset.view = kind || "run_index";
  for (const link of document.querySelectorAll(".bar nav a")) {
    const here = link.getAttribute("href") === (["live", "chat"].includes(kind) ? `#/${kind}` : "#/");
    if (here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const stop = new AbortController();
  leave = () => stop.abort();
  view.replaceChildren(h("p", { class: "quiet", role: "status" }, "Loading …"));
  try {
    if (!(kind in views)) throw new Error(`there is no view ${kind}`);
    const content = await views[kind](name, new URLSearchParams(query), stop.signal);
    if (mine !== visit) return;
    view.replaceChildren(...content);
    document.title = `${view.querySelector("h1")?.textContent ?? "scope"} · mnemoscope`;
    // Whoever follows a link by keyboard goes on from the new view, not from the top.
    if (mine > 1) view.focus({ preventScroll: true });
  } catch (error) {
    if (mine === visit)
      view.replaceChildren(h("p", { class: "error", role: "alert" }, error.message));
  }
}

addEventListener("hashchange", show);
show();
listen();
