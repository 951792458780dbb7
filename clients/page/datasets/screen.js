// Datasets: the list, and one of them.

import { h } from "../dom.js";
import { ago, whole } from "../format.js";
import { mountList } from "../library/list.js";
import { empty, mountLibrary } from "../library/screen.js";
import { linkTo } from "../router.js";
import { mountDataset } from "./dataset.js";
import { uploadButton } from "./upload.js";

export const mount = (element, context) => mountLibrary(element, context, { list: mountDatasets, one: mountDataset });

const mountDatasets = (element, context) => mountList(element, context, {
  place: "datasets", path: "/datasets", title: "Datasets", hint: "name, or the beginning of an id", word: "dataset",
  columns: ["Dataset", "Samples", "Runs", "Added"],
  nothing: empty("No datasets yet", "Upload one, or say ", h("code", {}, "ratchet datasets add FILE"), "; every run brings its own."),
  action: uploadButton("Upload a dataset…", context, { done: (stored) => context.navigate(["datasets", stored.dataset_id]) }),
  row: (one) => [
    [h("a", { href: linkTo(["datasets", one.dataset_id]) }, one.versions.join(", ") || one.name), h("div", { class: "mono soft small" }, one.dataset_id.slice(0, 12))],
    h("span", { class: "number" }, whole(one.count)), h("span", { class: "number" }, whole(one.runs)), h("span", { class: "soft" }, ago(one.created_at)),
  ],
});
