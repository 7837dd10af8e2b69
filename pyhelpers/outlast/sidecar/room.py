"""Room on the nodes: which disks fill, and what of the checkpoints may be forgotten there, and when."""

import time
from collections.abc import Callable, Iterable

from outlast.sidecar.crew import Crew
from outlast.sidecar.settings import State
from outlast.sidecar.wire import Message

ROOM = 2  # a node's disk shall have room for so many more checkpoints
LOCAL = 2  # newest durable ones that a node keeps, however full its disk is
AGAIN_S = 2.0  # a node is asked for more no sooner


class Room:
    """What all nodes may keep. `memory`: where they hold checkpoints in memory, the bytes for these; else 0."""

    def __init__(self, crew: Crew, state: State, memory: int, warn: Callable[[str, str], None]) -> None:
        self._crew = crew
        self._state = state
        self._memory = memory
        self._warn = warn
        self._asked_s: dict[str, float] = {}
        self._is_small = False  # what checkpoints may take of a node's memory
        self._sizes: dict[str, int] = {}  # of the largest checkpoint of each host
        self._durable = [state.durable_step()]

    def begin(self) -> None:
        """A launch begins: what is durable now may be an older step than before."""
        self._durable = [self._state.durable_step()]

    def durable(self, step: int) -> None:
        """This step is durable now."""
        self._durable.append(step)

    def above(self) -> int:
        """Steps up to this one are of no interest on a node any more. In memory that is every durable one."""
        if self._memory:
            return self._durable[-1]
        return self._durable[-LOCAL] - 1 if len(self._durable) >= LOCAL else -1

    def weigh(self, name: str) -> None:
        """How much of a host a checkpoint takes, to know what the next one will."""
        for host, view in self._crew.views.items():
            if (entry := view.entries.get(name)) is not None:
                self._sizes[host] = max(entry.files.bytes, self._sizes.get(host, 0))

    def forget(self, keep: Iterable[str]) -> None:
        """Nodes remove the links aside of all transfers but these."""
        kept = sorted(keep)
        for host in self._crew.present():
            self._crew.ask(host, {"m": "forget", "keep": kept, "remove": []}, lambda host, message: None)

    def make(self, keep: Iterable[str]) -> None:
        """Now and then: let nodes whose disks fill remove what is durable and old, and links aside of all but these."""
        kept = sorted(keep)
        for host in self._crew.present():
            view = self._crew.views.get(host)
            if view is None or not view.old or time.time() - self._asked_s.get(host, 0) < AGAIN_S:
                continue
            self._asked_s[host] = time.time()
            size = max((entry.files.bytes for entry in view.entries.values()), default=0)
            question: Message = {"m": "forget", "keep": kept}
            question |= self._in_memory(host, size) if self._memory else {"remove": view.old, "need": ROOM * size}
            self._crew.ask(host, question, lambda host, message: None)

    def _in_memory(self, host: str, size: int) -> Message:
        """What has to go, as soon as it may: what lies in memory is in training's way until it is gone."""
        need = ROOM * max(size, self._sizes.get(host, 0))
        if need > self._memory and not self._is_small:
            self._is_small = True
            self._warn("memory", f"checkpoint.memory_gib holds less than {ROOM} checkpoints of {host}")
        # Ranks read the one they resume from until the first of their own is there.
        remove = [name for name in self._crew.views[host].old if size or name != self._state.parent()]
        return {"remove": remove, "need": need, "most": self._memory}
