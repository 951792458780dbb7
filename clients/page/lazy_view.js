// A view whose module is loaded when it is first shown.

import { h, replace } from "./dom.js";

/** What mounts the view once `load()` has its module; where one goes meanwhile is not lost. */
export const lazy = (load) => ({
  mount(element, ...context) {
    let shown = null, gone = false, place = null;
    replace(element, h("div", { class: "card skeleton tall" }));
    load().then((view) => {
      if (gone) return;
      const handle = view.mount(replace(element), ...context);
      shown = typeof handle === "function" ? { unmount: handle } : handle;
      if (place) shown.go?.(...place);
    }, () => gone || replace(element, h("div", { class: "card empty" }, h("p", { class: "problem", role: "alert" }, "This part of the page could not be loaded. Load the page again."))));
    return {
      go: (...given) => (shown ? shown.go?.(...given) : (place = given)),
      unmount() {
        gone = true;
        shown?.unmount();
      },
    };
  },
});
