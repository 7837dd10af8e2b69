"""What the server's parts share: the jobs, the queues, the hosts; one lock."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from standin import conf, wire
from standin.book import Book, Job
from standin.queues import Queues


@dataclass
class Host:
    """An execution host as the server sees it: `down` until its MoM has said hello."""

    name: str
    state: str = "state-unknown,down"
    comment: str = ""
    since: float = field(default_factory=time.time)

    @property
    def up(self) -> bool:
        return self.state == "free"


@dataclass
class Pbs:
    book: Book
    queues: Queues
    hosts: dict[str, Host]
    lock: threading.RLock = field(default_factory=threading.RLock)
    wake: threading.Event = field(default_factory=threading.Event)

    def jobs_on(self, host: str) -> list[Job]:
        """The jobs that have the host, oldest first."""
        return [job for job in self.book.jobs.values() if job.alive and host in job.hosts]

    def changed(self) -> None:
        """Somebody has changed a job: it is kept, and the scheduler looks."""
        self.book.save()
        self.wake.set()

    def tell(self, host: str, then: Callable[[wire.Message], None] | None = None, /, **message: Any) -> None:
        """To a MoM, in the background; no answer within a minute of PBS's: forget it. `then` gets the answer."""

        def speak() -> None:
            try:
                answer = wire.ask(host, conf.MOM_PORT, None if then else max(2, conf.scaled(60)), **message)
            except OSError:
                return
            if then:
                with self.lock:
                    then(answer)
                    self.changed()

        threading.Thread(target=speak, daemon=True).start()
