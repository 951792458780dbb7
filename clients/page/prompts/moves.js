// Questions before a tag of a prompt moves.

import { words } from "../format.js";
import { askByName } from "../views/release_questions.js";

/** Ask, and move the tag; `{text, isGood}` says what became of it, or null. `done` is what was done, in words. */
const move = ({ api, path, what, body, done, ...question }) => askByName({
  ...question, api,
  act: async (values) => {
    const state = await api.post(path(what), { ...body, ...values });
    const became = state.status === "released" ? done : words(state.status);
    return { text: `${state.prompt}: ${state.tag} ${became}${state.version ? ` version ${state.version}` : ""}${state.message ? `: ${state.message}` : ""}`, isGood: ["released", "unchanged"].includes(state.status) };
  },
});

/** Move `stable` to another version; `isNewer` says that it comes after the one that `stable` stands for. */
export const moveStableQuestion = (api, path, prompt, version, isNewer) => move({
  api, path, what: "rollback", body: { version }, kind: isNewer ? "primary" : "danger",
  ...(isNewer ? { title: `Move ${prompt} forward to ${version}?`, confirm: "Move forward", done: "moved forward to" } : { title: `Roll ${prompt} back to ${version}?`, confirm: "Roll back", done: "rolled back to" }),
  told: [`The tag stable moves to version ${version}, as a step of its own in the audit log. It can be rolled back in turn.`],
});

/** Move `stable` to what a canary has proven. */
export const promoteQuestion = (api, path, prompt, canary) => move({
  api, path, what: "release", body: { from_tag: canary.tag }, title: `Release the canary of ${prompt}?`, confirm: "Release", kind: "primary", done: "released as",
  told: [`The tag stable moves to ${canary.version ?? "what the canary stands for"}, if it still points to what the canary was validated with.`],
});
