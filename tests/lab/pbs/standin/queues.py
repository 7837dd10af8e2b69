"""Queues, as qmgr's lines describe them: limits, routes, the kill delay."""

from __future__ import annotations

from dataclasses import dataclass, field

from standin import times
from standin.book import Job
from standin.codes import Code, Refused


@dataclass
class Queue:
    name: str
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def routes_to(self) -> list[str]:
        """Of a routing queue: where its jobs may go."""
        return self.settings.get("route_destinations", "").split(",") if self.is_route else []

    @property
    def is_route(self) -> bool:
        return self.settings.get("queue_type", "").lower().startswith("r")

    @property
    def kill_delay_s(self) -> float:
        """A queue's attribute, not a job's (facts §1, 5)."""
        return float(self.settings.get("kill_delay", 10))

    def takes(self, job: Job) -> bool:
        """Are the job's nodes and walltime within the limits?"""
        values = {
            "nodect": float(job.get("Resource_List.nodect", 1)),
            "walltime": float(times.walltime_s(job.get("Resource_List.walltime", "0")) or 0),
        }
        for name, value in values.items():
            for edge, sign in (("max", 1), ("min", -1)):
                limit = self.settings.get(f"resources_{edge}.{name}")
                if limit and sign * value > sign * float(times.walltime_s(limit) or 0):
                    return False
        return True


@dataclass
class Queues:
    """All of them, and the site's own resources."""

    queues: dict[str, Queue] = field(default_factory=dict)
    resources: set[str] = field(default_factory=set)
    default: str = "workq"

    def get(self, name: str) -> Queue:
        """Raises: Refused: there is none."""
        queue = self.queues.get(name)
        if queue is None:
            raise Refused(Code.UNKNOWN_QUEUE)
        return queue

    def accept(self, name: str, job: Job) -> Queue:
        """The queue of a new job. Raises: Refused: it does not take the job (facts §7)."""
        queue = self.get(name)
        if queue.settings.get("enabled", "True") != "True":
            raise Refused(Code.QUEUE_DISABLED)
        if queue.settings.get("from_route_only") == "True":
            raise Refused(Code.QUEUE_DENIED)
        if not queue.takes(job):
            raise Refused(Code.LIMIT)
        return queue

    def set(self, line: str) -> None:
        """One of qmgr's lines; those that a stand-in has no use for change nothing."""
        match line.split():
            case ["create", "queue", name]:
                self.queues[name] = Queue(name)
            case ["set", "queue", name, key, "=", value]:
                self.get(name).settings[key] = value
            case ["create", "resource", name, *_]:
                self.resources.add(name)
            case ["set", "server", "default_queue", "=", name]:
                self.default = name

    def route(self, queue: Queue, job: Job) -> Queue | None:
        """Where a job of a routing queue goes; nothing: nobody takes it, and PBS drops it without a word."""
        return next((found for name in queue.routes_to if (found := self.get(name)).takes(job)), None)


def read(text: str) -> Queues:
    """From the lines that qmgr takes: `create queue NAME`, `set queue NAME KEY = VALUE`, `create resource NAME …`."""
    found = Queues(queues={"workq": Queue("workq", {"queue_type": "Execution"})})
    for line in text.splitlines():
        found.set(line)
    return found
