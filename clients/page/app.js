// The frame around every view: where one is, whether the page is live, light or dark, and the server's token when it asks.

import * as api from "./api.js";
import { h, replace, s, say } from "./dom.js";
import { lazy } from "./lazy_view.js";
import { linkTo, navigate, placeOf } from "./router.js";
import { searchButton } from "./search/palette.js";
import { report } from "./source.js";
import { askForToken } from "./views/sign_in.js";
import * as runView from "./views/run.js";
import * as runsView from "./views/runs.js";

/** Screens beside the runs, loaded when they are first shown; a report has its own. */
const SCREENS = {
  new: () => import("./start/new_run.js"),
  prompts: () => import("./prompts/screen.js"),
  datasets: () => import("./datasets/screen.js"),
};

const OF_A_REPORT = {
  runs: () => import("./views/report_runs.js"),
  comparisons: () => import("./views/report_pair.js"),
};

const spoken = h("p", { class: "unseen", role: "status", "aria-live": "polite" });
const main = h("main", { id: "main", tabindex: "-1" });
let mounted = null;
let first = true;

/** Say something to those who listen to the page instead of looking at it. */
function announce(text) {
  say(spoken, text);
}

function show() {
  const { steps, options } = placeOf(location.hash);
  const [kind, id, ...rest] = report?.run_id && steps.length < 2 ? ["runs", report.run_id] : steps;
  const isRun = kind === "runs" && id;
  const screens = report ? OF_A_REPORT : SCREENS;
  const load = Object.hasOwn(screens, kind ?? "") ? screens[kind] : report ? OF_A_REPORT.runs : null;
  const key = isRun ? `run ${id}` : load ? kind ?? "runs" : "runs";
  const inside = isRun ? rest : steps.slice(1);
  if (mounted?.key === key) {
    mounted.go?.(inside, options);
  } else {
    mounted?.unmount();
    replace(main);
    const view = isRun ? runView : load ? lazy(load) : runsView;
    const handle = view.mount(main, { api, navigate, announce, params: { id }, rest: inside, options });
    mounted = { key, ...handle };
    if (!first) main.focus();
    first = false;
  }
}

function frame() {
  const app = document.getElementById("app");
  replace(
    app,
    h("header", { class: "top" },
      h("a", { class: "brand", href: linkTo(["runs"]), "aria-label": report?.run_id && !report.home ? "Ratchet, the run" : "Ratchet, all runs" }, mark(), h("span", {}, "Ratchet")),
      report ? h("span", { class: "places soft" }, "Report") : h("nav", { class: "places", "aria-label": "Main" }, h("a", { href: linkTo(["runs"]) }, "Runs"), h("a", { href: linkTo(["prompts"]) }, "Prompts"), h("a", { href: linkTo(["datasets"]) }, "Datasets")),
      report ? null : searchButton({ api, navigate }),
      themeButton(),
    ),
    main,
    spoken,
  );
}

function mark() {
  return s("svg", { class: "mark", viewBox: "0 0 32 32", "aria-hidden": "true" },
    s("rect", { width: 32, height: 32, rx: 7 }),
    s("path", { d: "M6 24h5v-5h5v-5h5V9h5" }),
    s("circle", { cx: 26, cy: 9, r: 2.4 }),
  );
}

const THEMES = ["system", "light", "dark"];

function themeButton() {
  const kept = remembered();
  const button = h("button", { class: "quiet theme", type: "button" });
  const wear = (theme) => {
    if (theme === "system") document.documentElement.removeAttribute("data-theme");
    else document.documentElement.setAttribute("data-theme", theme);
    button.dataset.theme = theme;
    replace(button, h("span", { "aria-hidden": "true" }, { system: "◐", light: "☀", dark: "☾" }[theme]), h("span", { class: "unseen" }, `Colours: ${theme}. Change.`));
    button.title = `Colours: ${theme}`;
  };
  button.addEventListener("click", () => {
    const next = THEMES[(THEMES.indexOf(button.dataset.theme) + 1) % THEMES.length];
    wear(next);
    try {
      localStorage.setItem("ratchet-theme", next);
    } catch {
      // storage is off: the choice lasts as long as the page
    }
  });
  wear(kept);
  return button;
}

function remembered() {
  try {
    const kept = localStorage.getItem("ratchet-theme");
    return THEMES.includes(kept) ? kept : "system";
  } catch {
    return "system";
  }
}

api.whenSignedOut(() => askForToken(() => {
  mounted?.unmount();
  mounted = null;
  show();
}));
frame();
window.addEventListener("hashchange", show);
show();
