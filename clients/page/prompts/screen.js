// Prompts: the list, and one of them.

import { h } from "../dom.js";
import { ago, whole } from "../format.js";
import { mountList } from "../library/list.js";
import { empty, mountLibrary } from "../library/screen.js";
import { linkTo } from "../router.js";
import { mountPrompt } from "./prompt.js";

export const mount = (element, context) => mountLibrary(element, context, { list: mountPrompts, one: mountPrompt });

const mountPrompts = (element, context) => mountList(element, context, {
  place: "prompts", path: "/prompts", title: "Prompts", hint: "namespace/key", word: "prompt",
  columns: ["Prompt", "Tags", "Versions", "Changed"],
  nothing: empty("No prompts yet", h("code", {}, "ratchet prompts seed FILE"), " stores one, and so does a run that is released."),
  row: (one) => [
    [h("a", { href: linkTo(["prompts", one.prompt]) }, one.prompt), one.waiting ? [" ", h("span", { class: "pill", "data-kind": "warn" }, `${whole(one.waiting)} to approve`)] : null],
    one.tags.length ? h("span", { class: "pills" }, one.tags.map((tag) => h("span", { class: "pill" }, `${tag.tag} ${tag.version ?? tag.hash.slice(0, 8)}`))) : h("span", { class: "soft" }, "none"),
    h("span", { class: "number" }, whole(one.versions)),
    one.changed_at ? h("span", { class: "soft" }, ago(one.changed_at)) : "",
  ],
});
