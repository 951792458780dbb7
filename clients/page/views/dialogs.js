// Questions before something is done: what it means, the fields it needs, and in words why it did not work.

import { h, replace } from "../dom.js";

let count = 0;

/**
 * Ask; `act(values)` is called with the fields' values when the answer is yes, and what it throws is shown.
 * `fields`: `{name, label, hint, value, type, required, wide, lines, path}`. Resolves to what `act` returned, or null.
 */
export function ask({ title, body = [], fields = [], confirm, kind = "primary", cancel = "Not now", act }) {
  const id = `dialog-${++count}`;
  const problem = h("p", { class: "problem", role: "alert" });
  const yes = h("button", { class: kind, type: "submit" }, confirm);
  const no = h("button", { type: "button", onclick: () => dialog.close() }, cancel);
  const inputs = Object.fromEntries(fields.map((field) => [field.name, inputOf(field, id)]));
  const form = h("form", { novalidate: true, onsubmit: submit },
    h("h2", { id: `${id}-title` }, title),
    body.map((text) => (text instanceof Node ? text : h("p", { class: "soft" }, text))),
    fields.length ? h("div", { class: "fields" }, fields.map((field) => h("div", { class: field.wide ? "wide" : null },
      h("label", { for: inputs[field.name].id }, field.label),
      inputs[field.name],
      field.hint ? h("p", { class: "soft small", id: `${inputs[field.name].id}-hint` }, field.hint) : null))) : null,
    problem,
    h("div", { class: "buttons" }, no, yes),
  );
  const dialog = h("dialog", { "aria-labelledby": `${id}-title` }, form);
  document.body.append(dialog);
  dialog.showModal();
  (fields.length ? inputs[fields[0].name] : no).focus();

  let result = null;
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(result);
    });
    dialog.submitting = async () => {
      const values = Object.fromEntries(Object.entries(inputs).map(([name, input]) => [name, input.value.trim()]));
      result = await act(values);
      dialog.close();
    };
  });

  async function submit(event) {
    event.preventDefault();
    replace(problem);
    const missing = fields.find((field) => field.required && !inputs[field.name].value.trim());
    if (missing) {
      replace(problem, `${missing.label}: say something here.`);
      return inputs[missing.name].focus();
    }
    yes.disabled = true;
    yes.setAttribute("aria-busy", "true");
    try {
      await dialog.submitting();
    } catch (error) {
      replace(problem, error.message);
      const named = fields.find((field) => field.path && error.field === field.path);
      if (named) inputs[named.name].focus();
    } finally {
      yes.disabled = false;
      yes.removeAttribute("aria-busy");
    }
    return undefined;
  }
}

function inputOf(field, id) {
  const attributes = { id: `${id}-${field.name}`, value: field.value ?? "", autocomplete: "off" };
  if (field.hint) attributes["aria-describedby"] = `${id}-${field.name}-hint`;
  if (field.type === "number") Object.assign(attributes, { inputmode: "decimal" });
  if (field.required) attributes["aria-required"] = "true";
  return field.lines ? h("textarea", { ...attributes, rows: field.lines }) : h("input", attributes);
}
