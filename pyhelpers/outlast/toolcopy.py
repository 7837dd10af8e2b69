"""The run's own copy of outlast: it works when the checkout and its virtual environment are gone.

DEST/outlast with `_tree/` inside, and the packages that the verbs import beside it, so that
`PYTHONPATH=DEST PYTHON -m outlast VERB` needs only the interpreter. It comes with its bytecode: a job writes none, and
without it each helper that it calls would compile its modules anew, which is most of the time that a short one takes.
"""

import compileall
import importlib.metadata
import re
import shutil
import sys
import tempfile
from pathlib import Path

from outlast.refused import Refused

PACKAGES = ("jinja2", "typer", "filelock", "psutil", "xxhash")  # as in pyproject.toml
# Typer colours its help with rich if it is there; 5 MB and 700 files on Lustre are not worth it.
LEFT_OUT = ("rich",)
TREE = ("templates", "lib", "sites")
BYTECODE = f".{sys.implementation.cache_tag}.pyc"


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
    shutil.copytree(package, part / "outlast", ignore=_rubbish)
    for name in TREE:
        shutil.copytree(root / name, part / "outlast/_tree" / name, ignore=_rubbish)
    for distribution in distributions(PACKAGES):
        _copy(distribution, part)
    compileall.compile_dir(part, quiet=2)  # what no cache had; one that cannot be compiled is so at its import


def _rubbish(folder: str, names: list[str]) -> list[str]:
    """What is left out of a copied folder: the tree inside a package, and bytecode of other Pythons."""
    if Path(folder).name == "__pycache__":
        return [name for name in names if not name.endswith(BYTECODE)]
    return [name for name in names if name == "_tree" or name.endswith(".pyc")]


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
        source = Path(str(distribution.locate_file(file)))
        # Scripts (../../bin/…) belong to the environment, not to the package.
        if ".." in file.parts or (file.suffix == ".pyc" and not (file.name.endswith(BYTECODE) and source.exists())):
            continue
        target = dest / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)  # with its time: bytecode is of one size and time of its source
