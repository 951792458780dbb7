// One run: its frame, and the part of it that the address names.

import * as candidate from "../detail/candidate.js";
import * as best from "../detail/best.js";
import * as burndown from "../detail/burndown.js";
import * as pareto from "../detail/pareto.js";
import { h, replace } from "../dom.js";
import { openRun } from "../run.js";

/** What can be shown of a run, by the address's third step. */
const PARTS = { "": overview, budget: single(burndown), candidates: single(candidate) };

export function mount(element, { api, navigate, announce, params, rest, options }) {
  let run = null;
  let place = { rest, options };
  let shown = null;
  let closed = false;
  const body = h("div", { class: "run-body" });
  replace(element, h("h1", {}, params.id), body);

  function show() {
    const [part = "", ...more] = place.rest;
    const key = place.rest.join("/");
    if (shown?.key === key && shown.go) return shown.go(place.options);
    shown?.unmount();
    replace(body);
    const context = {
      run, api, navigate, announce, options: place.options,
      subscribe: (listener) => run.subscribe(listener),
      params: { id: params.id, candidate: more[0] ?? null },
    };
    const handle = (PARTS[part] ?? overview)(body, context);
    shown = typeof handle === "function" ? { key, unmount: handle } : { key, ...handle };
  }

  openRun(params.id).then((opened) => {
    if (closed) return opened.close();
    run = opened;
    show();
  });

  return {
    go(rest, options) {
      place = { rest, options };
      if (run) show();
    },
    unmount() {
      closed = true;
      shown?.unmount();
      run?.close();
    },
  };
}

function single(part) {
  return (body, context) => part.mount(body, context);
}

function overview(body, context) {
  const places = [best, burndown, ...(pareto.hasPareto(context.run) ? [pareto] : [])];
  const closing = places.map((part) => {
    const place = h("section", { class: "card" });
    body.append(place);
    return part.mount(place, context);
  });
  return () => closing.forEach((close) => close());
}
