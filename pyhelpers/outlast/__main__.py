"""The door to every verb. It stays in the syntax of Python 3.6, so that an old Python can say what is wrong."""

import os
import sys


def main():  # type: ignore[no-untyped-def]
    """Exit status of the verb on the command line."""
    if sys.version_info < (3, 11):
        return _refuse("Python %d.%d is too old, it takes 3.11 or newer" % sys.version_info[:2])
    try:
        from outlast import commands
    except ImportError as err:
        name = (getattr(err, "name", "") or "").split(".")[0]
        if name in ("", "outlast"):
            raise
        return _refuse("this Python has no package %s" % name)
    return commands.main(sys.argv[1:])


def _refuse(why):  # type: ignore[no-untyped-def]
    """Exit status 2, after one line on stderr: what is wrong with this Python, and what to type."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    help_line = (
        "type: make -C %s setup" % root if os.path.exists(os.path.join(root, "Makefile")) else "see docs/"
    )
    if os.environ.get("OUTLAST_PYTHON"):
        help_line = "OUTLAST_PYTHON chose it; unset OUTLAST_PYTHON, or " + help_line
    sys.stderr.write("outlast: %s: %s; %s\n" % (sys.executable, why, help_line))
    return 2


if __name__ == "__main__":
    sys.exit(main())
