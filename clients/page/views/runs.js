// All runs.
import { h, replace } from "../dom.js";
import { linkTo } from "../router.js";

export function mount(element, { api }) {
  replace(element, h("h1", {}, "Runs"), h("p", {}, "Loading…"));
  api.get("/optimizations").then((page) => replace(element, h("h1", {}, "Runs"), h("ul", {}, page.items.map((run) => h("li", {}, h("a", { href: linkTo(["runs", run.optimization_id]) }, run.optimization_id))))));
  return { unmount() {} };
}
