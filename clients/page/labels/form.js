// A question to people: what is asked, what can be said, and which answers are drawn.

import { choice, labelled } from "../detail/controls.js";
import { h, replace } from "../dom.js";
import { DRAWN, KINDS } from "./kinds.js";

const LONGEST = 1000;

export function mountForm(element, { run, api, navigate }) {
  const { baseline_candidate_id: baseline } = run.detail;
  const words = h("input", { id: "label-words", autocomplete: "off", maxlength: String(LONGEST), placeholder: "Is this answer right?", "aria-required": "true" });
  const categories = h("input", { id: "label-categories", autocomplete: "off", placeholder: "good, fair, poor" });
  const steps = choice("steps", [2, 3, 4, 5, 6, 7, 8, 9].map((one) => [String(one), `1 to ${one}`]), "5", () => {});
  const count = h("input", { id: "label-count", inputmode: "numeric", value: "50", size: "5" });
  const seed = h("input", { id: "label-seed", inputmode: "numeric", autocomplete: "off", size: "9", placeholder: "drawn" });
  const candidates = h("input", { id: "label-candidates", autocomplete: "off", spellcheck: "false" });
  const problem = h("p", { class: "problem", role: "alert" });
  const field = (input, text, hint) => h("div", { class: "labelled" }, h("label", { for: input.id }, text), input, hint ? h("span", { class: "soft small" }, hint) : null);
  const categoriesPlace = field(categories, "Categories, separated by commas", "Two to nine: each has a key.");
  const lowest = h("input", { id: "label-lowest", autocomplete: "off", maxlength: "60", size: "12", placeholder: "worst" });
  const highest = h("input", { id: "label-highest", autocomplete: "off", maxlength: "60", size: "12", placeholder: "best" });
  const scalePlaces = [labelled("Steps", steps), field(lowest, "The lowest means"), field(highest, "The highest means")];
  const kind = choice("kind", Object.entries(KINDS), "right_or_wrong", shape);
  const drawn = choice("drawn", Object.entries(DRAWN), "random", () => {});
  const samples = choice("samples", [["", "the search’s"], ["confirmation", "the confirmation’s"]], "", () => {});
  const samplesPlace = labelled("Samples", samples);
  samplesPlace.hidden = !run.trials.some((trial) => trial.purpose === "confirmation");
  const yes = h("button", { type: "submit", class: "primary" }, "Draw answers");
  replace(element, h("form", { class: "card label-form", novalidate: true, onsubmit: submit, "aria-labelledby": "label-form-title" },
    h("h2", { id: "label-form-title" }, "Ask a question"),
    h("p", { class: "soft" }, "Whoever labels sees the sample and the answer, not whose answer it is nor what scorers made of it."),
    field(words, "Question"),
    h("div", { class: "choices" }, labelled("Answered by", kind), categoriesPlace, scalePlaces),
    h("div", { class: "choices" }, labelled("Answers", drawn), field(count, "How many"), field(seed, "Seed"), samplesPlace,
      field(candidates, "Candidates, separated by commas", "Left empty: the best; of two, baseline and best.")),
    problem, h("div", { class: "buttons" }, yes)));
  shape();

  function shape() {
    categoriesPlace.hidden = kind.value !== "categories";
    for (const place of scalePlaces) place.hidden = kind.value !== "scale";
    candidates.placeholder = kind.value === "better_of_two" ? `${baseline ?? "baseline"}, best` : "best";
  }

  const listed = (text) => text.split(",").map((one) => one.trim()).filter(Boolean);

  function asked() {
    const number = (input, name) => {
      const value = Number(input.value.trim());
      if (!Number.isInteger(value)) throw new Error(`${name}: ${input.value} is no whole number.`);
      return value;
    };
    if (!words.value.trim()) throw new Error("Question: say what people are to look at.");
    return {
      kind: kind.value, words: words.value.trim(), drawn: drawn.value, count: number(count, "How many"), candidates: listed(candidates.value),
      ...(seed.value.trim() ? { seed: number(seed, "Seed") } : {}), ...(kind.value === "scale" ? { steps: Number(steps.value), ...endsOf() } : {}),
      ...(kind.value === "categories" ? { categories: listed(categories.value) } : {}), ...(samples.value ? { confirmation: true } : {}),
    };
  }

  const endsOf = () => (lowest.value.trim() || highest.value.trim() ? { ends: [lowest.value.trim() || lowest.placeholder, highest.value.trim() || highest.placeholder] } : {});

  async function submit(event) {
    event.preventDefault();
    replace(problem);
    yes.disabled = true;
    try {
      const question = await api.post(api.ofRun(run.id, "questions"), asked());
      navigate(["runs", run.id, "labels", String(question.question_id)]);
    } catch (error) {
      replace(problem, error.message);
      if (!words.value.trim()) words.focus();
    } finally {
      yes.disabled = false;
    }
  }
}
