// The question before a finished run's winner is released, to a tag or as a canary.

import { ask } from "./dialogs.js";

/** Ask, and release; what became of it, in words, or null. */
export async function winnerQuestion({ run, api }, { canary }) {
  const { spec } = run.detail;
  const caller = await api.get("/session").catch(() => null); // what is wrong then is told by the answer
  return ask({
    title: canary ? "Release the winner as a canary?" : "Release the winner?",
    body: [
      ...(caller?.is_named ? [`It is recorded as the word of ${caller.name}, whose token this is.`] : []),
      canary ? "The tag canary moves to it, and the real one stays. What the canary proves is released from the prompt's page." : "The tag moves to it, if it still points to what the winner was compared with. It can be rolled back.",
    ],
    fields: [
      { name: "prompt", label: "Prompt", value: spec.release?.prompt ?? spec.prompt?.name ?? "", hint: "such as support/triage; a name that there is none of yet makes one", required: true, wide: true, path: "prompt" },
      ...(canary ? [] : [{ name: "tag", label: "Tag", value: spec.release?.tag ?? "", hint: "empty: the one that the run began with, else stable", path: "tag" }]),
      ...(caller?.is_named ? [] : [{ name: "by", label: "Your name, as the audit log knows you", required: true, wide: true, path: "by" }]),
      { name: "comment", label: "Why (it is written in the audit log)", wide: true },
    ],
    confirm: canary ? "Release as a canary" : "Release",
    act: async (values) => {
      const state = await api.post(api.ofRun(run.id, "release"), { canary, ...Object.fromEntries(Object.entries(values).filter(([, value]) => value)) });
      return `${state.prompt}: ${canary ? "canary" : state.tag} ${state.status}${state.version ? `, version ${state.version}` : ""}${state.message ? `: ${state.message}` : ""}`;
    },
  });
}
