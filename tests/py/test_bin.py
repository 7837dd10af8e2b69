"""bin/outlast and bin/render as a person types them: from anywhere, through links, with the wrong Python."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import outlast

ROOT = Path(__file__).parents[2]
OLD = sorted(Path.home().glob(".pyenv/versions/3.[678].*/bin/python"))


def call(command: Path, *args: str, cwd: Path = Path("/"), **env: str) -> subprocess.CompletedProcess[str]:
    clean = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **env}
    return subprocess.run([command, *args], cwd=cwd, env=clean, capture_output=True, text=True, timeout=60)


def checkout(tmp_path: Path) -> Path:
    """A checkout that has not been set up."""
    for name in ("bin", "pyhelpers"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "Makefile").touch()
    return tmp_path / "bin/outlast"


def test_it_works_from_another_folder_through_two_links(tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to(ROOT / "bin/outlast")
    (tmp_path / "two").symlink_to("one")
    assert call(tmp_path / "two", "--version", cwd=tmp_path).stdout == f"outlast {outlast.__version__}\n"


def test_render_is_the_verb_render(tmp_path: Path) -> None:
    (tmp_path / "render").symlink_to(ROOT / "bin/render")
    assert call(tmp_path / "render", "--help").stdout == call(ROOT / "bin/outlast", "render", "--help").stdout


def test_without_an_environment_it_says_what_to_type(tmp_path: Path) -> None:
    done = call(checkout(tmp_path), "--version")
    assert done.returncode == 2
    assert done.stderr == f"outlast: no Python environment yet; type: make -C {tmp_path} setup\n"


@pytest.mark.skipif(not OLD, reason="no Python older than 3.9 on this machine")
@pytest.mark.parametrize("python", OLD, ids=lambda path: path.parts[-3])
def test_an_old_python_says_so_in_one_line(python: Path) -> None:
    done = call(ROOT / "bin/outlast", "--version", OUTLAST_PYTHON=str(python))
    assert done.returncode == 2
    assert "is too old, it takes 3.11 or newer" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("words", [("render", "local", "smoke"), ("status", "r1"), ("ckpt", "list", "x")])
def test_a_python_without_the_packages_is_one_line(tmp_path: Path, words: tuple[str, ...]) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True, timeout=60)
    python = tmp_path / "bare/bin/python"
    done = call(ROOT / "bin/outlast", *words, OUTLAST_PYTHON=str(python))
    assert done.returncode == 2
    assert re.fullmatch(
        rf"outlast: {python}: this Python has no package \w+; OUTLAST_PYTHON chose it: .*\n", done.stderr
    )


def test_a_python_that_is_not_there_is_one_line() -> None:
    done = call(ROOT / "bin/outlast", "--version", OUTLAST_PYTHON="/no/python")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)


def test_the_callers_python_settings_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("raise SystemExit('not ours')")
    done = call(ROOT / "bin/outlast", "status", "--help", PYTHONPATH=str(tmp_path), PYTHONHOME="/nowhere")
    assert done.returncode == 0
    assert "RUN" in done.stdout
