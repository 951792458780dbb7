// The server's token, asked for when it demands one; exchanged for a cookie and then forgotten.

import { signIn } from "../api.js";
import { h, replace } from "../dom.js";

let open = null;

/** Ask, once however many requests were refused; `done` is called when the server knows us. */
export function askForToken(done) {
  if (open) return;
  const problem = h("p", { class: "problem", role: "alert" });
  const field = h("input", { id: "token", type: "password", autocomplete: "current-password", required: true });
  const form = h("form", {
    onsubmit: async (event) => {
      event.preventDefault();
      replace(problem);
      try {
        await signIn(field.value.trim());
        open.close();
        open.remove();
        open = null;
        done();
      } catch (error) {
        replace(problem, error.status === 401 ? "This is no token of this server, or one that is over. Look for the link that it printed when it was started, or ask an admin." : error.message);
        field.select();
      }
    },
  },
    h("h2", { id: "token-title" }, "This server asks for its token"),
    h("p", { class: "soft" }, "It is in the link that ", h("code", {}, "ratchet dev"), " or ", h("code", {}, "ratchet serve"), " printed, or the value of RATCHET_SERVE_TOKEN there. The page does not keep it: it is exchanged for a session."),
    h("label", { for: "token" }, "Token"),
    field,
    problem,
    h("div", { class: "buttons" }, h("button", { class: "primary", type: "submit" }, "Sign in")),
  );
  open = h("dialog", { "aria-labelledby": "token-title", oncancel: (event) => event.preventDefault() }, form);
  document.body.append(open);
  open.showModal();
}
