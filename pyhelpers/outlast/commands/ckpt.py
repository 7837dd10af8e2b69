"""outlast ckpt: the checkpoints of a run, or of any folder. Each of its verbs is a module of its own, ckpt_VERB."""

import importlib
import sys

from outlast import commands
from outlast.refused import nearest

VERBS: dict[str, str] = {
    "list": "List the checkpoints of a run or a folder, newest last.",
    "show": "Tell all that is known about one checkpoint.",
    "verify": "Compare checkpoints with their manifests: sizes and hashes.",
    "lint": "Say what an exact resume needs and a checkpoint lacks.",
    "pin": "Keep a checkpoint, whatever is pruned.",
    "unpin": "Let a checkpoint be pruned again.",
    "rollback": "Go back to an older checkpoint: the newer ones go to quarantine.",
    "quarantine": "Take a checkpoint out of use; nothing is deleted.",
    "prune": "Remove durable checkpoints that need not be kept.",
    "adopt": "Make a checkpoint durable that outlast has not written.",
}


def main(argv: list[str]) -> int:
    """Exit status of the verb `argv[0]`."""
    verb = argv[0] if argv else "--help"
    if verb in ("-h", "--help", "help"):
        print(overview())
        return 0
    if verb not in VERBS:
        print(f"outlast: ckpt has no verb {verb!r}{nearest(verb, list(VERBS))}", file=sys.stderr)
        return 2
    module = importlib.import_module(f"outlast.commands.ckpt_{verb}")
    function = module.listed if verb == "list" else getattr(module, verb)
    return commands.typed(f"ckpt {verb}", function)(argv[1:])


def overview() -> str:
    """The verbs, a line each."""
    lines = "\n".join(f"  {verb:<10}  {line}" for verb, line in VERBS.items())
    return f"Usage: outlast ckpt VERB …   (outlast ckpt VERB --help says more)\n\n{lines}"
