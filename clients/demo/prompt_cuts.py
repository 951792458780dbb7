"""How the simulated reflector makes a prompt shorter: what tells it nothing goes. Now and then it answers at greater length."""

import re
from dataclasses import replace

from clients.demo.deterministic_text import draw
from clients.demo.prompt_meaning import PromptMeaning, read_prompt

ASKED = re.compile(r"\bshorter\b|\bfewer tokens\b|\bas short as\b", re.IGNORECASE)
_SLIP = 0.1
_WORDY = "Please make sure that all of this is kept in mind at all times."


def shortened(text: str, *noise: object) -> str:
    """The prompt without the lines that it would not be read otherwise without."""
    if draw("wordy", *noise) < _SLIP:
        return f"{text}\n{_WORDY}"
    lines, wanted = text.split("\n"), _meaning(text)
    for line in list(lines):
        without = [other for other in lines if other is not line]
        if any(other.strip() for other in without) and "{{" not in line and _meaning("\n".join(without)) == wanted:
            lines = without
    return "\n".join(lines).strip()


def _meaning(text: str) -> PromptMeaning:
    return replace(read_prompt(text), length=0)
