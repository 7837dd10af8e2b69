"""The verbs of `outlast`: one module a verb, and only the verb that was asked for is imported.

`commands/VERB.py` defines the function `VERB`, typed as typer wants it; its docstring starts with the line that
stands in VERBS, so that `outlast --help` need not import anything. A verb that must start faster than typer defines
`main(argv)` instead.
"""

import contextlib
import difflib
import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

import outlast
from outlast.commands import _usage
from outlast.refused import Refused, nearest

VERBS: dict[str, str] = {
    "demo": "Show a whole run on this machine: lose a rank, run out of time, resume, hang, finish.",
    "render": "Print the job script of a site and a job.",
    "submit": "Render a job, make its run directory and submit it.",
    "status": "Say how a run is doing, and what to type next.",
    "events": "Tell what happened to a run, one line an event.",
    "crash": "Say from its logs what ended a job, whose fault it is and what to do.",
    "classify": "Decide a recorded ending once more, and say why it was no other.",
    "flight": "Compare the flight recorders of a hang, and say which rank is waited for.",
    "report": "Tell on one page how an attempt failed, or how the run ended, and what to do.",
    "summary": "Tell the jobs of a run in a table, one line a job.",
    "mail": "Try whether mail works, or send what waits in a run's outbox.",
    "ckpt": "List, check, pin, roll back and remove checkpoints.",
    "badnodes": "List, add, remove, import and exclude bad nodes.",
    "pins": "Say whether what a run trains with is still what its first launch found.",
    "save": "Ask a running job for a checkpoint now.",
    "stop": "Ask a run to save and to end; its chain stops.",
    "hold": "Let the current job go on, but start no further one.",
    "resume": "Clear a stop or a hold and submit the run again.",
    "cancel": "Stop a run at once: cancel every job of its chain.",
    "launch": "Run a command under the supervisor in this interactive allocation.",
    "watch": "Run a command; end it, with all its processes, and try again when it makes no progress.",
    "preflight": "Ask the nodes of this allocation, or this machine, how they are.",
    "sidecar": "Make a job's checkpoints durable while it trains (jobs start this).",
    "toolcopy": "Copy outlast into a folder that works without the checkout.",
}


# Those that send by themselves, that only print, and that work for a job or on this machine alone.
_SEND_NOTHING = ("mail", "render", "demo", "watch", "preflight", "sidecar", "toolcopy")


def main(argv: list[str]) -> int:
    """Exit status of the verb `argv[0]`: 0 did it, 1 could not, 2 wrong usage, 75 try again later."""
    verb = argv[0] if argv else "--help"
    if verb in ("-h", "--help", "help"):
        print(_overview("outlast", VERBS))
        return 0
    if verb == "--version":
        print(f"outlast {outlast.__version__}")
        return 0
    if verb not in VERBS:
        return _unknown(verb)
    return _run(verb, argv[1:])


def _run(verb: str, args: list[str]) -> int:
    module = importlib.import_module(f"outlast.commands.{verb}")
    call: Callable[[list[str]], int] = getattr(module, "main", None) or typed(verb, getattr(module, verb, None))
    try:
        return call(args)
    except Refused as err:
        print(f"outlast: {err}", file=sys.stderr)
        return err.status
    except OSError as err:
        # A folder that is closed, a disk that is full: no fault of ours, and a traceback would not say more.
        print(f"outlast: {f'{err.filename}: ' if err.filename else ''}{err.strerror or err}", file=sys.stderr)
        return 1
    finally:
        _send_waiting(verb)


def _send_waiting(verb: str) -> None:
    """What jobs of the verb's runs, and of the user's others, could not send goes from here, behind its own output."""
    common = sys.modules.get("outlast.commands._common")
    runs = list(common.found) if common else []
    if common:
        common.found.clear()
    if verb in _SEND_NOTHING:
        return
    from outlast import places, tree
    from outlast.notice import background

    for run in runs:
        background.start(run, os.environ)
    with contextlib.suppress(Refused, OSError):
        mine = places.of_own_runs(tree.root(), os.environ, places.user_file(os.environ))
        background.start_beside(runs, mine, os.environ)


def of_verb(verb: str, verbs: dict[str, str], argv: list[str], find: Callable[[str], Any]) -> int:
    """Exit status of one of a verb's own verbs, `argv[0]`, whose function `find` gives."""
    own = argv[0] if argv else "--help"
    if own in ("-h", "--help", "help"):
        print(_overview(f"outlast {verb}", verbs))
        return 0
    if own not in verbs:
        print(f"outlast: {verb} has no verb {own!r}{nearest(own, list(verbs))}", file=sys.stderr)
        return 2
    return typed(f"{verb} {own}", find(own))(argv[1:])


def typed(verb: str, function: Any) -> Callable[[list[str]], int]:
    """The verb as a call with its words, parsed by typer as the function's types say."""
    import typer

    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    app.command(context_settings={"help_option_names": ["-h", "--help"]})(function)

    def call(args: list[str]) -> int:
        try:
            code = app(args=args, prog_name=f"outlast {verb}", standalone_mode=False)
        except SystemExit as end:
            code = end.code
        except Exception as err:
            # By what it can do: where typer keeps the class of its own errors changes.
            if not hasattr(err, "format_message"):
                raise
            raise _usage.wrong(f"outlast {verb}", err.format_message()) from err
        return code if isinstance(code, int) else 0

    return call


def _overview(program: str, verbs: dict[str, str]) -> str:
    width = max(map(len, verbs))
    lines = "\n".join(f"  {verb:<{width}}  {help_line}" for verb, help_line in verbs.items())
    return f"Usage: {program} VERB …   ({program} VERB --help says more)\n\n{lines}"


def _unknown(verb: str) -> int:
    near = difflib.get_close_matches(verb, VERBS, n=1)
    hint = f"did you mean {near[0]}?" if near else "outlast --help lists the verbs"
    print(f"outlast: no verb {verb!r}; {hint}", file=sys.stderr)
    return 2
