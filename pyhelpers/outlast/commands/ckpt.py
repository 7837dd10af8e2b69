"""outlast ckpt: the checkpoints of a run, or of any folder. Each of its verbs is a module of its own, ckpt_VERB."""

import importlib
from typing import Any

from outlast import commands

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
    "restore": "Bring back what was pruned, rolled back or put into quarantine.",
    "adopt": "Make a checkpoint durable that outlast has not written.",
}


def main(argv: list[str]) -> int:
    """Exit status of the verb `argv[0]`."""
    return commands.of_verb("ckpt", VERBS, argv, _function)


def _function(verb: str) -> Any:
    module = importlib.import_module(f"outlast.commands.ckpt_{verb}")
    return module.listed if verb == "list" else getattr(module, verb)
