"""The demo: a real run on real servers; only the model is simulated."""

from __future__ import annotations

import shutil
import sys
import textwrap
from importlib.resources import as_file, files
from pathlib import Path
from typing import Final

from clients.commands.context import Context, ExitCode
from clients.demo.model_process import NO_KEY, simulated_model
from clients.own_modules import IN_CHECKOUT
from clients.reports.text.boxes import Verbosity
from clients.runs.interruption import Interruption
from clients.runs.run_options import RunOptions
from clients.runs.start import run_spec
from clients.runs.views.summary import EndView
from clients.settings import change_environment

EXAMPLE: Final = files(__package__) / "example"
SERVERS = ("TEMPORAL_ADDRESS", "TEMPORAL_PROFILE", "TEMPORAL_CONFIG_FILE", "DATABASE_URL")
WIDEST: Final = 111
INTRODUCTION: Final = (
    "SIMULATED: the model. It speaks the OpenAI protocol over HTTP on this machine and answers by rules; its prices are "
    "invented, nothing is paid. Real: Temporal, PostgreSQL, the worker, and every decision of the run."
)


async def demonstrate(context: Context, verbosity: Verbosity, output: Path, interruption: Interruption) -> int:
    """Run the packaged example against the simulated model, as `ratchet run --new` would."""
    change_environment(dict.fromkeys(SERVERS))  # the demo never touches servers that matter
    async with simulated_model(context) as base_url:
        change_environment({"OPENAI_BASE_URL": base_url, "OPENAI_API_KEY": NO_KEY})
        context.say(textwrap.fill(INTRODUCTION, _width()) + "\n")
        ending = EndView(verbosity, output, "make dev" if IN_CHECKOUT else "ratchet dev")
        options = RunOptions(new=True, yes=True, whole_engine=False, ending=ending)
        with as_file(EXAMPLE) as example:
            code = await run_spec(context, example / "spec.yaml", options, interruption)
        if code == ExitCode.DONE:
            context.say(f"Spec:        {EXAMPLE / 'spec.yaml'}; `ratchet init` begins one of your own")
    return code


def _width() -> int:
    return min(shutil.get_terminal_size().columns, WIDEST) if sys.stdout.isatty() else WIDEST
