"""Plug-ins come only from where the operator allows it, and a wrong reference says how to put it right."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import pytest
from temporalio.exceptions import ApplicationError

from activities.plugins.loader import Plugins
from tests.support.plugin_files import TARGET, module, new_name
from workflows.model.failures import INVALID_REQUEST


def refusal(plugins: Plugins, reference: str, arguments: int = 3) -> str:
    with pytest.raises(ApplicationError) as raised:
        plugins.resolve(reference, arguments)
    assert (raised.value.type, raised.value.non_retryable) == (INVALID_REQUEST, True)
    assert reference.partition(":")[0] in raised.value.message
    return raised.value.message


class TestWhatIsAllowed:
    def test_modules_beside_the_spec(self, folder: Path) -> None:
        name = module(folder, TARGET)
        assert Plugins(search_path=folder).resolve(f"{name}:target", 3).call({}, None, None) == "x"

    def test_modules_under_a_prefix_and_no_lookalikes(self, folder: Path) -> None:
        package = folder / new_name("package")
        package.mkdir()
        (package / "__init__.py").touch()
        module(package, TARGET, "evaluate")
        sys.path.append(str(folder))
        plugins = Plugins([package.name])
        assert plugins.resolve(f"{package.name}.evaluate:target", 3).source_hash
        assert "does not allow" in refusal(plugins, f"{package.name}_evil:target")

    @pytest.mark.parametrize(
        "reference", ["os:system", "subprocess:run", "builtins:eval", "json:loads", "temporalio.client:Client"]
    )
    def test_nothing_else_that_is_installed(self, folder: Path, reference: str) -> None:
        assert "RATCHET_PLUGINS" in refusal(Plugins(search_path=folder), reference)

    def test_nothing_at_all_by_default(self, folder: Path) -> None:
        module(folder, "raise AssertionError('imported')", "never_imported")
        sys.path.append(str(folder))
        assert "allowed: none" in refusal(Plugins.from_environment(""), "never_imported:target")
        assert "never_imported" not in sys.modules

    @pytest.mark.parametrize("room", ["workflows", "activities", "clients", "worker", "ratchet"])
    def test_no_name_of_our_own(self, folder: Path, room: str) -> None:
        module(folder, TARGET, room)
        assert "rename yours" in refusal(Plugins([room], folder), f"{room}:target")

    def test_a_name_that_an_installed_module_has_is_pointed_out(self, folder: Path) -> None:
        module(folder, TARGET, "json")
        assert "comes before the one beside the spec" in refusal(Plugins(search_path=folder), "json:target")

    def test_the_specs_directory_comes_last_on_the_import_path(self, folder: Path) -> None:
        Plugins(search_path=folder)
        assert sys.path[-1] == str(folder)

    def test_the_environment_variable_lists_prefixes(self) -> None:
        assert Plugins.from_environment(" one, two.three. ,,").allowed == ("one", "two.three")


class TestWhatIsWrong:
    def test_a_module_that_is_not_there(self, folder: Path) -> None:
        message = refusal(Plugins(["nowhere"], folder), "nowhere.at_all:target")
        assert "there is no module 'nowhere'" in message
        assert str(folder) in message

    def test_a_module_whose_own_import_is_missing(self, folder: Path) -> None:
        name = module(folder, "import does_not_exist_either\n")
        assert "No module named 'does_not_exist_either'; install" in refusal(Plugins(search_path=folder), f"{name}:target")

    @pytest.mark.parametrize("source", ["1/0", "raise SystemExit(2)", "def broken(:"])
    def test_a_module_that_cannot_be_imported(self, folder: Path, source: str) -> None:
        name = module(folder, source)
        assert "importing it failed" in refusal(Plugins(search_path=folder), f"{name}:target")

    def test_a_name_that_the_module_does_not_have(self, folder: Path) -> None:
        name = module(folder, TARGET)
        assert "has no 'traget'" in refusal(Plugins(search_path=folder), f"{name}:traget")

    def test_something_that_cannot_be_called(self, folder: Path) -> None:
        name = module(folder, "target = 3\n")
        assert "is a int, not callable" in refusal(Plugins(search_path=folder), f"{name}:target")

    @pytest.mark.parametrize("parameters", ["a", "a, b, c, d", "*, a, b, c"])
    def test_other_parameters_than_it_is_called_with(self, folder: Path, parameters: str) -> None:
        name = module(folder, f"def target({parameters}): ...\n")
        assert "called with 3 positional arguments" in refusal(Plugins(search_path=folder), f"{name}:target")

    @pytest.mark.parametrize("parameters", ["a, b, c", "*all", "a, b, c, d=1", "a, /, *rest, **more"])
    def test_any_parameters_that_fit_are_fine(self, folder: Path, parameters: str) -> None:
        name = module(folder, f"def target({parameters}): ...\n")
        assert not Plugins(search_path=folder).resolve(f"{name}:target", 3).is_async


class TestIdentity:
    def test_it_is_the_hash_of_the_defining_modules_source(self, folder: Path) -> None:
        name = module(folder, TARGET)
        other = module(folder, f"from {name} import target\n")
        expected = hashlib.sha256(TARGET.encode()).hexdigest()
        plugins = Plugins(search_path=folder)
        assert plugins.fingerprint(f"{name}:target", None) == expected
        assert plugins.fingerprint(f"{other}:target", None) == expected

    def test_a_stated_version_replaces_it(self, folder: Path) -> None:
        name = module(folder, TARGET)
        assert Plugins(search_path=folder).fingerprint(f"{name}:target", "2024-11") == "version:2024-11"

    def test_methods_and_callable_objects_are_plugins_too(self, folder: Path) -> None:
        name = module(
            folder,
            "class Target:\n"
            "    async def __call__(self, configuration, sample, context): return 'x'\n"
            "    def answer(self, configuration, sample, context): return 'y'\n"
            "target = Target()\n",
        )
        plugins = Plugins(search_path=folder)
        assert plugins.resolve(f"{name}:target", 3).is_async
        assert plugins.resolve(f"{name}:target.answer", 3).call({}, None, None) == "y"

    def test_it_is_imported_once(self, folder: Path) -> None:
        name = module(folder, f"imports = globals().get('imports', 0) + 1\n{TARGET}")
        plugins = Plugins(search_path=folder)
        assert plugins.resolve(f"{name}:target", 3) is plugins.resolve(f"{name}:target", 3)
