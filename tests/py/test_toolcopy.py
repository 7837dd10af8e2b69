import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from outlast import toolcopy
from outlast.toolcopy import ToolCopyError

ROOT = Path(__file__).parents[2]


def small_tree(tmp_path: Path) -> tuple[Path, Path]:
    """A package and the tree it belongs to, to be copied."""
    for name in toolcopy.TREE:
        (tmp_path / "root" / name).mkdir(parents=True)
    (tmp_path / "package/__pycache__").mkdir(parents=True)
    (tmp_path / "package/__init__.py").write_text("")
    return tmp_path / "package", tmp_path / "root"


def test_the_copy_works_without_the_checkout_and_the_virtual_environment(tmp_path: Path) -> None:
    toolcopy.make(tmp_path / "tool/1", ROOT / "pyhelpers/outlast", ROOT)
    (tmp_path / "runs/r1").mkdir(parents=True)
    (tmp_path / "runs/r1/job.sh").write_text("OUTLAST_SCHEDULER=local\n")
    base = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    # -I -S leave neither the environment nor any site-packages; only the copy is on the path.
    code = "import sys; sys.path.insert(0, sys.argv.pop(1)); from outlast.__main__ import main; sys.exit(main())"
    done = subprocess.run(
        [base, "-I", "-S", "-c", code, tmp_path / "tool/1", "status", tmp_path / "runs/r1"],
        cwd="/",
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("r1     new\n")


def test_make_leaves_a_copy_that_is_there(tmp_path: Path) -> None:
    package, root = small_tree(tmp_path)
    assert toolcopy.make(tmp_path / "tool/1", package, root)
    (package / "more.py").write_text("")
    assert not toolcopy.make(tmp_path / "tool/1", package, root)
    assert not (tmp_path / "tool/1/outlast/more.py").exists()


def test_make_leaves_nothing_behind_when_it_fails(tmp_path: Path) -> None:
    package, root = small_tree(tmp_path)
    (root / "lib").rmdir()
    with pytest.raises(ToolCopyError):
        toolcopy.make(tmp_path / "tool/1", package, root)
    assert list((tmp_path / "tool").iterdir()) == []


def test_make_copies_no_bytecode(tmp_path: Path) -> None:
    package, root = small_tree(tmp_path)
    toolcopy.make(tmp_path / "tool/1", package, root)
    assert not list((tmp_path / "tool/1").rglob("__pycache__"))


def test_packages_are_those_of_pyproject() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert sorted(toolcopy.PACKAGES) == sorted(line.split(">")[0] for line in project["dependencies"])
