"""The door to every verb, in the syntax of Python 3.6: an old Python must be able to say what is wrong."""

import os
import sys
from pathlib import Path


def main() -> int:
    """Exit status of the verb on the command line."""
    if sys.version_info < (3, 11):
        return _refuse(f"Python {sys.version_info[0]}.{sys.version_info[1]} is too old, it takes 3.11 or newer")
    try:
        from outlast import commands

        return commands.main(sys.argv[1:])  # a verb is imported in there
    except ImportError as err:
        package = (err.name or "outlast").split(".")[0]
        if package == "outlast":
            raise
        return _refuse(f"this Python has no package {package}")


def _refuse(why: str) -> int:
    """Exit status 2, after one line on stderr: what is wrong with this Python, and what to type."""
    root = Path(__file__).resolve().parent.parent.parent
    cure = f"type: make -C {root} setup" if (root / "Makefile").exists() else "install outlast again"
    if os.environ.get("OUTLAST_PYTHON"):
        cure = "OUTLAST_PYTHON chose it: unset it, or name another"
    sys.stderr.write(f"outlast: {sys.executable}: {why}; {cure}\n")
    return 2


if __name__ == "__main__":
    sys.exit(main())
