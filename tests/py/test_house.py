"""Rules of the house that a machine can keep."""

import ast
import importlib
import inspect
import tomllib
from pathlib import Path

import pytest

import outlast
from outlast import commands

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "pyhelpers/outlast"
MODULES = sorted(PACKAGE.rglob("*.py"))
THERE = [verb for verb in commands.VERBS if (PACKAGE / f"commands/{verb}.py").exists()]


def imported(path: Path) -> set[str]:
    """The top-level packages that a module imports, anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return {name.split(".")[0] for name in names}


def users_of(package: str) -> set[str]:
    return {str(path.relative_to(PACKAGE)) for path in MODULES if package in imported(path)}


def test_typer_lives_in_commands() -> None:
    assert all(name.startswith("commands/") for name in users_of("typer"))


def test_jinja2_lives_in_what_fills_templates() -> None:
    assert users_of("jinja2") <= {"render.py", "markup.py"}


@pytest.mark.parametrize("package", ["filelock", "psutil", "xxhash"])
def test_a_package_has_one_home(package: str) -> None:
    alone = {"sidecar/disk.py"}  # it runs on nodes that have no other file of ours
    assert len(users_of(package) - alone) <= 1


def test_numpy_lives_in_the_demo_and_where_values_are_counted() -> None:
    users = users_of("numpy") - {"checkpoint/values.py"} | users_of("safetensors")
    assert all(name.startswith("demo/") for name in users)


def test_nothing_below_imports_a_command() -> None:
    for path in MODULES:
        if path.parent.name != "commands" and path.name != "__main__.py":
            assert "outlast.commands" not in path.read_text(), path


def test_the_door_is_parsed_by_python_3_6() -> None:
    for path in (ROOT / "pyhelpers/__main__.py", PACKAGE / "__init__.py", PACKAGE / "__main__.py"):
        ast.parse(path.read_text(), feature_version=(3, 6))


@pytest.mark.parametrize("verb", THERE)
def test_the_overview_says_of_a_verb_what_the_verb_says(verb: str) -> None:
    module = importlib.import_module(f"outlast.commands.{verb}")
    if not hasattr(module, "main"):
        assert inspect.getdoc(getattr(module, verb)).splitlines()[0] == commands.VERBS[verb]  # type: ignore[union-attr]


def test_every_verb_is_there() -> None:
    assert list(commands.VERBS) == THERE


def test_every_verb_has_its_page() -> None:
    assert [verb for verb in commands.VERBS if not (ROOT / f"docs/{verb}.md").exists()] == []


def test_the_version_stands_in_two_places_and_is_one() -> None:
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == outlast.__version__


def test_the_lock_file_names_no_index() -> None:
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    assert not [line for line in lines if line.startswith("-")]
