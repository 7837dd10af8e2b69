"""What pip installs: the verbs, and with them templates, lib and sites."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what a wheel of this checkout holds."""
    out = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=60)
    zipfile.ZipFile(next(out.glob("*.whl"))).extractall(out / "site")
    return out / "site"


def test_a_wheel_holds_every_file_of_the_tree(installed: Path) -> None:
    for folder in ("templates", "lib", "sites"):
        files = {path.relative_to(ROOT) for path in (ROOT / folder).rglob("*") if path.is_file()}
        held = {
            path.relative_to(installed / "outlast/_tree") for path in (installed / "outlast/_tree" / folder).rglob("*")
        }
        assert files <= held


def test_an_installed_outlast_renders_what_the_checkout_renders(installed: Path, tmp_path: Path) -> None:
    words = ["-c", "from outlast.__main__ import main; main()", "frontier", "smoke", "--account", "abc123"]
    words[2:2] = ["render"]
    scripts = []
    for path in (installed, ROOT / "pyhelpers"):
        env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(path)}
        done = subprocess.run(
            [sys.executable, *words], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60
        )
        assert done.stderr == ""
        scripts.append([line for line in done.stdout.splitlines() if not line.startswith("OUTLAST_ROOT=")])
    assert scripts[0] == scripts[1] != []


def test_the_wheel_has_the_command_outlast(installed: Path) -> None:
    entry = next(installed.glob("*.dist-info/entry_points.txt")).read_text()
    assert "outlast = outlast.__main__:main" in entry
