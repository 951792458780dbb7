// Questions before a tag of a prompt moves.

import { ask } from "../views/dialogs.js";

/** Ask, and move the tag; what became of it, in words, or null. */
async function move({ api, path, what, body, title, told, confirm, kind }) {
  const caller = await api.get("/session").catch(() => null); // what is wrong then is told by the answer
  return ask({
    title, body: [...(caller?.is_named ? [`It is recorded as the word of ${caller.name}, whose token this is.`] : []), ...told],
    fields: [...(caller?.is_named ? [] : [{ name: "by", label: "Your name, as the audit log knows you", required: true, wide: true, path: "by" }]), { name: "comment", label: "Why (it is written in the audit log)", wide: true }],
    confirm, kind,
    act: async (values) => {
      const state = await api.post(path(what), { ...body, ...values });
      return `${state.prompt}: ${state.tag} ${state.status}${state.version ? `, version ${state.version}` : ""}${state.message ? `: ${state.message}` : ""}`;
    },
  });
}

/** Move `stable` to another version. */
export const rollBackQuestion = (api, path, prompt, version) => move({
  api, path, what: "rollback", body: { version }, title: `Roll ${prompt} back to ${version}?`, confirm: "Roll back", kind: "danger",
  told: [`The tag stable moves to version ${version}, as a step of its own in the audit log. It can be rolled back in turn.`],
});

/** Move `stable` to what a canary has proven. */
export const promoteQuestion = (api, path, prompt, canary) => move({
  api, path, what: "release", body: { from_tag: canary.tag }, title: `Release the canary of ${prompt}?`, confirm: "Release", kind: "primary",
  told: [`The tag stable moves to ${canary.version ?? "what the canary stands for"}, if it still points to what the canary was validated with.`],
});
