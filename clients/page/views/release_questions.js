// Questions before a release, each asked by name: the audit log keeps who said it.

import { ask } from "./dialogs.js";

const WHY = "Why (it is written in the audit log)";

/** Ask as `ask` does, for somebody's word: by the name of the token, or by a name that is given, which `by` fills in. */
export async function askByName({ api, told, fields = [], by = "", comment = WHY, ...question }) {
  const caller = await api.get("/session").catch(() => null); // what is wrong then is told by the answer
  return ask({
    ...question,
    body: [...(caller?.is_named ? [`It is recorded as the word of ${caller.name}, whose token this is.`] : []), ...told],
    fields: [
      ...fields,
      ...(caller?.is_named ? [] : [{ name: "by", label: "Your name, as the audit log knows you", value: by, required: true, wide: true, path: "by" }]),
      { name: "comment", label: comment, wide: true },
    ],
  });
}

/** Approve or reject the release that waits. */
export function rulingQuestion(run, api, release, ruling) {
  const approve = ruling === "approve";
  return askByName({
    api, by: remembered(), comment: "Comment",
    title: approve ? `Release to ${release.prompt}?` : `Reject the release of ${release.prompt}?`,
    told: [approve ? `The tag ${release.tag} moves to this candidate, if it still points to what the run began with. It can be rolled back.` : "Nothing moves. The run and its evidence stay."],
    confirm: approve ? "Approve and release" : "Reject", kind: approve ? "primary" : "danger",
    act: async (values) => {
      const state = await api.post(api.ofRun(run.id, ruling), values);
      try {
        if (values.by) localStorage.setItem("ratchet-name", values.by);
      } catch {
        // storage is off: the name is asked for again
      }
      return `Release ${state.status}${state.message ? `: ${state.message}` : ""}`;
    },
  });
}

/** Release a finished run's winner, to a tag or as a canary; what became of it, in words, or null. */
export function winnerQuestion(run, api, { canary }) {
  const { spec } = run.detail;
  return askByName({
    api, title: canary ? "Release the winner as a canary?" : "Release the winner?",
    told: [canary ? "The tag canary moves to it, and the real one stays. What the canary proves is released from the prompt's page." : "The tag moves to it, if it still points to what the winner was compared with. It can be rolled back."],
    fields: [
      { name: "prompt", label: "Prompt", value: spec.release?.prompt ?? spec.prompt?.name ?? "", hint: "such as support/triage; a name that there is none of yet makes one", required: true, wide: true, path: "prompt" },
      ...(canary ? [] : [{ name: "tag", label: "Tag", value: spec.release?.tag ?? "", hint: "empty: the one that the run began with, else stable", path: "tag" }]),
    ],
    confirm: canary ? "Release as a canary" : "Release",
    act: async (values) => {
      const state = await api.post(api.ofRun(run.id, "release"), { canary, ...Object.fromEntries(Object.entries(values).filter(([, value]) => value)) });
      return `${state.prompt}: ${canary ? "canary" : state.tag} ${state.status}${state.version ? `, version ${state.version}` : ""}${state.message ? `: ${state.message}` : ""}`;
    },
  });
}

function remembered() {
  try {
    return localStorage.getItem("ratchet-name") ?? "";
  } catch {
    return "";
  }
}
