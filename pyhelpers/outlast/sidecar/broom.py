"""Takes away what need not be kept, in a child of its own: where that hangs, what is new is published all the same."""

from collections.abc import Callable

from outlast.sidecar import retain
from outlast.sidecar.child import Child, Errand
from outlast.sidecar.settings import Settings, State


class Broom:
    """Sweeps when told that there is something to sweep; `done` hears how it ended."""

    def __init__(
        self, settings: Settings, state: State, lost: Callable[[str], None], done: Callable[[Child], None]
    ) -> None:
        self._policy, self._grace_s = settings.keep, settings.grace_s
        self._run = retain.Run(settings.run_dir, settings.prefix, settings.job, settings.generation)
        self._state = state
        self._errand = Errand(lost)
        self._done = done
        self._is_full = False
        self._is_untidy = False

    def full(self) -> None:
        """The shared file system is, or our share of it: what waits for the end of its grace makes room."""
        self._is_full = True

    def untidy(self) -> None:
        """One more has become durable."""
        self._is_untidy = True

    def look(self) -> None:
        """Hear of the last sweep's end, begin the next one."""
        self._errand.look()
        if self._errand.is_out:
            return
        if self._is_full:
            self._is_full = False
            self._errand.start(lambda: retain.make_room(self._run), self._done)
        elif self._is_untidy:
            self._is_untidy, reading = False, self._state.reading()
            self._errand.start(lambda: retain.prune(self._run, self._policy, self._grace_s, reading), self._done)
