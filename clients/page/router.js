// Where one is, in the part of the address after `#`: `#/runs/ID/candidates/C?against=B`.

import { report } from "./source.js";

/** The place an address names: its steps, decoded, and its options. */
export function placeOf(hash) {
  const [path, query] = hash.replace(/^#\/?/, "").split("?", 2);
  const steps = path.split("/").filter(Boolean).map(decoded);
  return { steps, options: new URLSearchParams(query ?? "") };
}

/** The address of a place: `linkTo(["runs", id], {status: "running"})`. Of a report in several files, in the file that has it. */
export function linkTo(steps, options = {}) {
  const [kind, id] = steps;
  if (kind === "runs" && id === undefined && report?.home) return report.home;
  return `${(kind === "runs" && report?.files?.[id]) || ""}${hashOf(steps, options)}`;
}

function hashOf(steps, options) {
  const given = Object.entries(options).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const query = new URLSearchParams(given).toString();
  return `#/${steps.map(encodeURIComponent).join("/")}${query ? `?${query}` : ""}`;
}

/** Go somewhere. `replace` keeps it out of the browser's history: what is typed into a filter is no journey. */
export function navigate(steps, options = {}, { replace = false } = {}) {
  const link = hashOf(steps, options);
  if (link === location.hash) return;
  if (replace) {
    history.replaceState(null, "", link);
    window.dispatchEvent(new HashChangeEvent("hashchange"));
  } else {
    location.hash = link;
  }
}

function decoded(step) {
  try {
    return decodeURIComponent(step);
  } catch {
    return step;
  }
}
