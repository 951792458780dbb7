// A candidate: what it changes, what each sample made of it. (Engineer `detail` builds it.)

import { h, replace } from "../dom.js";

export function mount(element, { params }) {
  replace(element, h("h2", {}, `Candidate ${params.candidate}`));
  return () => {};
}
