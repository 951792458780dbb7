"""What Temporal programs of others import says what the run itself says, and costs little."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest
from temporalio.contrib.pydantic import PydanticPayloadConverter, pydantic_data_converter
from temporalio.converter import (
    CompositePayloadConverter,
    DataConverter,
    DefaultFailureConverterWithEncodedAttributes,
    PayloadCodec,
)
from temporalio.workflow import _definition as definitions  # there is no public way to ask

import ratchet.temporal
from clients.programs import program_plugin
from clients.programs.program_plugin import joined_converter
from tests.support.loaded_modules import ENGINE, ROOMS, WITHOUT_TEMPORAL, loaded_by
from workflows.optimization import OptimizationWorkflow

MEASURED = definitions._Definition.must_from_class(OptimizationWorkflow)
SHOWN = definitions._Definition.must_from_class(ratchet.temporal.Optimization)


def test_the_interface_has_the_names_of_the_run() -> None:
    assert SHOWN.name == MEASURED.name
    for kind in ("signals", "queries", "updates"):
        assert sorted(getattr(SHOWN, kind)) == sorted(getattr(MEASURED, kind))


def test_the_interface_has_the_types_of_the_run() -> None:
    assert SHOWN.ret_type == MEASURED.ret_type
    for kind in ("queries", "updates"):
        for name, shown in getattr(SHOWN, kind).items():
            measured = getattr(MEASURED, kind)[name]
            assert (name, shown.ret_type, shown.arg_types) == (name, measured.ret_type, measured.arg_types)


def test_a_method_is_called_what_it_asks_for() -> None:
    """A workflow asks by the method that it names."""
    for kind in ("queries", "updates", "signals"):
        assert all(getattr(ratchet.temporal.Optimization, name).__name__ == name for name in getattr(SHOWN, kind))


def test_the_interface_loads_neither_clients_nor_workers() -> None:
    loaded = set(loaded_by("from ratchet.temporal import Adjustment, Optimization, OptimizationResult, ask_run"))
    assert not loaded & {"temporalio.worker", "asyncpg", "openai", "aiohttp", "numpy", "typer", "fastapi"}
    assert not {name for name in loaded if name.partition(".")[0] in ("activities", "store", "worker")}
    assert not {name.partition(".")[0] for name in loaded_by("import ratchet.temporal")} & (ENGINE | ROOMS)


def test_where_the_engine_is_missing_that_is_said() -> None:
    loaded_by(
        WITHOUT_TEMPORAL.replace("ratchet.optimize", "ratchet.temporal.Optimization").replace(
            "import ratchet\n", "import ratchet.temporal\n"
        )
    )


def test_the_names_are_there() -> None:
    public = [*ratchet.temporal._INTERFACE, *ratchet.temporal._REQUESTS, *ratchet.temporal._PLUGIN]
    assert set(public) <= set(dir(ratchet.temporal))
    assert all(getattr(ratchet.temporal, name) is not None for name in public)
    with pytest.raises(AttributeError, match="no attribute 'Optimisation'"):
        ratchet.temporal.Optimisation  # type: ignore[attr-defined]  # noqa: B018


class Codec(PayloadCodec):
    async def encode(self, payloads: Any) -> Any:
        return payloads

    async def decode(self, payloads: Any) -> Any:
        return payloads


class OwnPydantic(PydanticPayloadConverter):
    pass


class Foreign(CompositePayloadConverter):
    pass


def test_the_usual_converter_reads_models_and_another_one_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_plugin, "own_converter", DataConverter)
    assert joined_converter(None).payload_converter_class is PydanticPayloadConverter
    assert joined_converter(pydantic_data_converter) is pydantic_data_converter
    own = DataConverter(payload_converter_class=OwnPydantic, payload_codec=Codec())
    assert joined_converter(own) is own
    with pytest.raises(ValueError, match="Foreign, which does not read pydantic models"):
        joined_converter(DataConverter(payload_converter_class=Foreign))


def test_ratchets_codec_comes_in_where_the_program_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = Codec(), Codec()
    monkeypatch.setattr(program_plugin, "own_converter", lambda: DataConverter(payload_codec=ours))
    assert joined_converter(None).payload_codec is ours
    assert joined_converter(DataConverter(payload_codec=theirs)).payload_codec is theirs


def test_failures_of_a_program_are_encrypted_with_what_it_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_ENCRYPTION_KEYS", f"a:{b64encode(bytes(32)).decode()}")
    assert joined_converter(None).failure_converter_class is DefaultFailureConverterWithEncodedAttributes
    own = DataConverter(payload_converter_class=OwnPydantic, payload_codec=Codec())
    assert joined_converter(own) is own
