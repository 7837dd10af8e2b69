from pathlib import Path

import pytest

from outlast import tree
from outlast.refused import Refused


def test_root_is_the_checkout_when_run_from_one() -> None:
    assert tree.root() == Path(__file__).parents[2]


def test_root_is_the_package_data_of_an_installed_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("templates", "lib", "sites"):
        (tmp_path / "outlast/_tree" / name).mkdir(parents=True)
    monkeypatch.setattr(tree, "_HERE", tmp_path / "outlast")
    assert tree.root() == tmp_path / "outlast/_tree"


def test_a_checkouts_command_has_a_path_and_an_installed_one_a_name() -> None:
    assert tree.command("/opt/out last") == "'/opt/out last/bin/outlast'"
    assert tree.command("/usr/lib/python3/outlast/_tree") == tree.command("") == "outlast"


def test_root_refuses_half_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "_HERE", tmp_path / "pyhelpers/outlast")
    with pytest.raises(Refused, match="not whole"):
        tree.root()
