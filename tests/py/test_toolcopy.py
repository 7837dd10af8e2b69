import importlib.util
import os
import struct
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


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of this checkout."""
    dest = tmp_path_factory.mktemp("tool") / "1"
    toolcopy.make(dest, ROOT / "pyhelpers/outlast", ROOT)
    return dest


def call(copy: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A verb by the copy alone: -I -S leave neither the environment nor any site-packages."""
    base = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    code = "import sys; sys.path.insert(0, sys.argv.pop(1)); from outlast.__main__ import main; sys.exit(main())"
    env = {"HOME": str(copy), "PATH": os.environ["PATH"]}
    return subprocess.run(
        [base, "-I", "-S", "-c", code, copy, *words], cwd="/", env=env, capture_output=True, text=True
    )


def test_the_copy_works_without_the_checkout_and_the_virtual_environment(copy: Path, tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text("OUTLAST_SCHEDULER=local\n")
    done = call(copy, "status", f"{tmp_path}/")
    assert (done.returncode, done.stderr) == (0, "")
    assert " new\n" in done.stdout


def test_the_copy_renders_and_copies_itself(copy: Path, tmp_path: Path) -> None:
    assert call(copy, "render", "local", "smoke").returncode == 0
    assert call(copy, "toolcopy", str(tmp_path / "2")).returncode == 0
    assert call(tmp_path / "2", "--version").returncode == 0


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


def test_every_module_of_the_copy_has_its_bytecode(copy: Path) -> None:
    sources = [path for path in copy.rglob("*.py") if "_tree" not in path.parts]
    assert len(sources) > 100
    stale = [path for path in sources if not is_fresh(path)]
    assert stale == []


def is_fresh(source: Path) -> bool:
    """Is there bytecode that an import of the source takes? Its header: magic, flags, time and size of the source."""
    code = Path(importlib.util.cache_from_source(str(source)))
    told = source.stat()
    header = importlib.util.MAGIC_NUMBER + struct.pack("<III", 0, int(told.st_mtime), told.st_size)
    return code.exists() and code.read_bytes()[:16] == header


def test_bytecode_of_another_python_is_left_out(tmp_path: Path) -> None:
    package, root = small_tree(tmp_path)
    (package / "__pycache__/__init__.cpython-27.pyc").write_bytes(b"old")
    toolcopy.make(tmp_path / "tool/1", package, root)
    found = {path.name for path in (tmp_path / "tool/1/outlast").rglob("*.pyc")}
    assert found == {f"__init__{toolcopy.BYTECODE}"}


def test_packages_are_those_of_pyproject() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert sorted(toolcopy.PACKAGES) == sorted(line.split(">")[0] for line in project["dependencies"])
