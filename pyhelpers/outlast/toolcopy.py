"""The run's own copy of outlast: it works when the checkout and its virtual environment are gone.

DEST/outlast with `_tree/` inside, and the packages that the verbs import beside it, so that
`PYTHONPATH=DEST PYTHON -m outlast VERB` needs only the interpreter.
"""

import importlib.metadata
import re
import shutil
import tempfile
from pathlib import Path

from outlast.refused import Refused

PACKAGES = ("jinja2", "typer", "filelock", "psutil", "xxhash")  # as in pyproject.toml
# Typer colours its help with rich if it is there; 5 MB and 700 files on Lustre are not worth it.
LEFT_OUT = ("rich",)
TREE = ("templates", "lib", "sites")


class ToolCopyError(Refused):
    """The copy could not be made."""

    status = 1


def make(dest: Path, package: Path, root: Path) -> bool:
    """Was the copy made? False: it is there already. `package` is outlast's own folder, `root` its tree's.

    It appears whole or not at all, so of two jobs that make it at once one wins and both can use it.
    Raises: ToolCopyError: it can't be written.
    """
    if (dest / "outlast").is_dir():
        return False
    part = None
    try:
        dest.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(dir=dest.parent, prefix=f".{dest.name}."))
        part.chmod(0o755)
        _fill(part, package, root)
        part.rename(dest)
    except (OSError, shutil.Error) as err:
        if (dest / "outlast").is_dir():
            return False
        raise ToolCopyError(f"{dest}: {getattr(err, 'strerror', None) or err}") from err
    finally:
        if part is not None:
            shutil.rmtree(part, ignore_errors=True)
    return True


def _fill(part: Path, package: Path, root: Path) -> None:
    rubbish = shutil.ignore_patterns("__pycache__", "*.pyc", "_tree")
    shutil.copytree(package, part / "outlast", ignore=rubbish)
    for name in TREE:
        shutil.copytree(root / name, part / "outlast/_tree" / name, ignore=rubbish)
    for distribution in distributions(PACKAGES):
        _copy(distribution, part)


def distributions(names: tuple[str, ...]) -> list[importlib.metadata.Distribution]:
    """The installed distributions of these names, and all that they require.

    Raises: ToolCopyError: one is not installed.
    """
    found: dict[str, importlib.metadata.Distribution] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name in found or name in LEFT_OUT:
            continue
        try:
            found[name] = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError as err:
            raise ToolCopyError(f"package {name} is not installed, type make setup") from err
        waiting += _required(found[name].requires or [])
    return list(found.values())


def _required(lines: list[str]) -> list[str]:
    # What stands behind a `;` is for extras, for Windows or for an older Python: never for us.
    return [re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0].lower() for line in lines if ";" not in line]


def _copy(distribution: importlib.metadata.Distribution, dest: Path) -> None:
    for file in distribution.files or []:
        # Scripts (../../bin/…) belong to the environment, not to the package.
        if ".." in file.parts or "__pycache__" in file.parts:
            continue
        target = dest / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(str(distribution.locate_file(file)), target)
