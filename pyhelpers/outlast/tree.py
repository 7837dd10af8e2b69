"""Where templates/, lib/ and sites/ are."""

import shlex
from pathlib import Path

from outlast.refused import Refused

_HERE = Path(__file__).resolve().parent


def short(root: Path, path: Path) -> str:
    """A path as messages name it: from the root on, or whole where it lies elsewhere."""
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def command(root: str) -> str:
    """How a person types outlast: a checkout's by its path, as it is on nobody's PATH, an installed one by its name."""
    return shlex.quote(f"{root}/bin/outlast") if root and not root.endswith("/_tree") else "outlast"


def root() -> Path:
    """The folder that holds templates/, lib/ and sites/.

    That is the checkout, or `_tree/` inside the package where it was installed by pip or copied into a run.
    Raises: Refused: neither is there.
    """
    for folder in (_HERE / "_tree", _HERE.parent.parent):
        if (folder / "templates").is_dir() and (folder / "sites").is_dir():
            return folder
    raise Refused(f"no templates/ and sites/ beside {_HERE}: this copy of outlast is not whole, install it again")
