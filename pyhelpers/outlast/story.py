"""The ledger in words: one line an event, for a person."""

import re
import time
from collections.abc import Callable

from outlast.ledger import Event
from outlast.masked import masked

_ENDS = {
    "walltime": "stopped in time",
    "walltime_late": "was ended by the scheduler's time limit",
    "requeued": "was put back into the queue by the scheduler",
    "preempted": "was preempted",
    "node": "lost a node",
    "cancelled": "was cancelled",
    "ended_unknown": "was ended, and the scheduler does not say why",
    "stopped": "stopped as asked",
    "done": "has done its work",
    "early_exit": "ended by itself before its target",
    "unhealthy": "found bad nodes",
    "launch": "never came to a step",
    "bad_checkpoint": "could not use its checkpoint",
    "drift": "found that what it trains with is not what it was",
    "other_ranks": "found a checkpoint that its number of ranks cannot load",
    "storage": "had trouble with its storage",
    "hang": "hung",
    "systemic": "failed the same way wherever it runs",
    "crash": "crashed",
    "internal": "ended without a decision of ours",
}
_THEN = {"relaunch": "starts again", "hold": "no further job", "stop": "no further job"}
_ASKED = {
    "deadline": "its time is nearly over",
    "stop": "somebody asked for it",
    "outside": "the job was signalled",
    "lost": "the run is another job's",
    "wrong_resume": "it began at a wrong step",
    "bad_checkpoint": "no whole checkpoint is left",
    "peers": "a rank died, and the others would wait for it",
    "hang": "it makes no progress",
}


def clock(t: float) -> str:
    """The local time of an event."""
    return time.strftime("%H:%M:%S", time.localtime(t))


def day(t: float) -> str:
    """The local day of an event, as a line of its own."""
    return time.strftime("%A %d %B %Y", time.localtime(t))


def line(event: Event) -> str:
    """`18:20:11  job 12 stopped in time at step 120`; what is not printable is dropped, a ledger is data.

    Secrets are masked: jobs of an older outlast wrote them down.
    """
    text = masked(f"{clock(event.t)}  {_words(event)}")
    return "".join(char if char.isprintable() else " " for char in text).rstrip()


def _words(event: Event) -> str:
    who = f"job {event.job}" if event.job else event.text("by") or "somebody"
    write = _STORIES.get(event.name)
    if write is None:
        fields = " ".join(f"{key}={event.text(key)}" for key in event.fields)
        return f"{who}: {event.name} {fields}"
    return write(who, event)


def _submitted(who: str, event: Event) -> str:
    return f"{who} submitted job {event.text('successor')}" + ("" if event.job else " to start the run")


def _started(who: str, event: Event) -> str:
    again = f" again (restart {event.restart})" if event.restart else ""
    return f"{who} started{again} on {event.text('hosts') or event.text('host')}{_from(event, 'durable_step')}"


def _from(event: Event, key: str) -> str:
    step = event.number(key)
    return f", with a checkpoint of step {step}" if step else ", without a checkpoint"


def _preflight(who: str, event: Event) -> str:
    text = f"{who} asked its {event.text('nodes')} nodes how they are, in {event.text('seconds')} s"
    found = {"bad": event.text("blamed"), "bad on many": event.text("site")}
    counted = {"unknown": event.text("unknown")} if event.number("unknown") else {}
    parts = [f"{word}: {what}" for word, what in (found | counted).items() if what]
    return f"{text}; {'; '.join(parts) or 'all are well'}"


def _staged(who: str, event: Event) -> str:
    step = event.number("step")
    return f"{who} has the checkpoint of step {step} on its nodes" if step else f"{who} has its nodes ready"


def _launched(who: str, event: Event) -> str:
    step = event.number("step")
    attempt = f", attempt {event.attempt}" if event.attempt > 1 else ""
    return f"{who} launched the trainer" + (f" from step {step}" if step else " from the beginning") + attempt


def _signal(who: str, event: Event) -> str:
    name, origin = event.text("name"), event.text("from")
    if name != "stop":
        return f"{who} got {name} from {origin or 'somewhere'}"
    return f"{who} asks the trainer to stop: {_ASKED.get(origin, origin)}"


def plain(evidence: str) -> str:
    """The evidence of an end without what is for programs: the shim's mark, and the second."""
    return re.sub(r"(?:(?<=^)|(?<=; ))outlast: (?=rank )|^outlast: | at \d{10}(?=$|;)", "", evidence)


def _ended(who: str, event: Event) -> str:
    step = event.number("step")
    evidence = plain(event.text("evidence"))
    text = f"{who} {_ENDS.get(event.text('class'), 'ended: ' + event.text('class'))}"
    text += f" at step {step}" if step is not None else ""
    text += f" ({evidence})" if evidence else ""
    then = _THEN.get(event.text("then"))
    return f"{text}; {then}" if then else text


def _hang(who: str, event: Event) -> str:
    step = event.number("step")
    where = f"at step {step}" if step is not None else "before its first step"
    limit = f"{event.text('age_s')} s in phase {event.text('phase')}, limit {event.text('limit_s')} s"
    return f"{who} hangs {where} ({limit}): writes down what its processes do"


def _held(who: str, event: Event) -> str:
    todo = event.text("todo")
    return f"{who} holds the run: {event.text('why')}" + (f"; then type: {todo}" if todo else "")


def _why(event: Event) -> str:
    return f": {event.text('why')}" if event.text("why") else ""


def _on_durable(who: str, event: Event) -> str:
    score = f", score {event.text('score')}" if event.text("score") else ""
    failed = f": status {event.text('code')}" if event.number("code") else ""
    return f"{who} ran the on_durable command on step {event.text('step')}{failed}{score}"


_PINS = {
    "written": "wrote down what the run trains with (pins.toml)",
    "accepted": "what the run trains with has changed, and that is right",
}

_STORIES: dict[str, Callable[[str, Event], str]] = {
    "submitted": _submitted,
    "started": _started,
    "launched": _launched,
    "preflight": _preflight,
    "staged": _staged,
    "first_step": lambda who, e: f"{who} trains: first step is {e.text('step')}",
    "progress": lambda who, e: f"{who} is at step {e.text('step')}",
    "checkpoint_local": lambda who, e: f"{who} saved step {e.text('step')} on its node",
    "checkpoint_durable": lambda who, e: f"{who} has step {e.text('step')} safe in the run directory",
    "checkpoint_torn": lambda who, e: f"{who} found the checkpoint of step {e.text('step')} torn{_why(e)}",
    "branched": lambda who, e: f"{who} starts from step {e.text('step')} of {e.text('from')}",
    "on_durable": _on_durable,
    "pins": lambda who, e: f"{who}: {_PINS.get(e.text('answer'), e.text('answer'))}",
    "loss_bad": lambda who, e: f"{who} finds the loss wrong from step {e.text('step')} on{_why(e)}",
    "loss_good": lambda who, e: f"{who} finds the loss well again from step {e.text('step')} on",
    "signal": _signal,
    "hang": _hang,
    "cadence": lambda who, e: f"{who} usually makes a step in {e.text('usual_s')} s, {e.text('longest_s')} s at most",
    "ended": _ended,
    "left": lambda who, e: f"{who} left: {e.text('why')}",
    "held": _held,
    "resumed": lambda who, e: f"{e.text('by') or who} resumed the run",
    "finished": lambda who, e: f"{who} finished the run at step {e.text('step')}",
    "warned": lambda who, e: f"{who} warns: {e.text('text')}",
    "rolled_back": lambda who, e: f"{who} went back to step {e.text('step')}; in quarantine: {e.text('names')}",
    "quarantined": lambda who, e: f"{who} took the checkpoint of step {e.text('step')} out of use{_why(e)}",
    "restored": lambda who, e: f"{who} brought the checkpoint of step {e.text('step')} back",
    "pinned": lambda who, e: f"{who} pinned the checkpoint of step {e.text('step')}{_why(e)}",
    "unpinned": lambda who, e: f"{who} unpinned the checkpoint of step {e.text('step')}",
    "pruned": lambda who, e: f"{who} removed the checkpoints of steps {e.text('steps')}",
    "adopted": lambda who, e: f"{who} made the checkpoint of step {e.text('step')} durable",
    "excluded": lambda who, e: f"{who} leaves out {e.text('nodes')}: {e.text('why')}",
    "struck": lambda who, e: f"{who} gave {e.text('nodes')} a strike, until {e.text('until')}",
    "swapped": lambda who, e: f"{who} puts {e.text('in')} into the place of {e.text('out')}{_why(e)}",
}
