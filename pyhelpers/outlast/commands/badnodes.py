"""outlast badnodes: the file of bad nodes. Each of its verbs is a module of its own, badnodes_VERB."""

import importlib
from typing import Any

from outlast import commands

VERBS: dict[str, str] = {
    "list": "List the bad nodes: until when, how bad, why.",
    "add": "Give nodes a strike.",
    "remove": "Take nodes out of the file.",
    "age": "Take out the nodes whose time is over.",
    "import": "Take over what the scheduler says of its nodes.",
    "exclude": "Print the nodes to leave out, as the scheduler takes them.",
}

_FUNCTIONS = {"list": "listed", "import": "imported"}  # the others are no words of Python's


def main(argv: list[str]) -> int:
    """Exit status of the verb `argv[0]`."""
    return commands.of_verb("badnodes", VERBS, argv, _function)


def _function(verb: str) -> Any:
    return getattr(importlib.import_module(f"outlast.commands.badnodes_{verb}"), _FUNCTIONS.get(verb, verb))
