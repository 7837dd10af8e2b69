"""No line says what happened: the steps and the code of the launch are all there is."""

from outlast.crash import exits, verdict
from outlast.crash.case import Case
from outlast.crash.verdict import Verdict

LAST_STEPS = 3


def diverged(case: Case) -> Verdict | None:
    """The last steps before an end have no finite loss, and nobody said a word about it."""
    steps = [step for number in range(min(len(case.seen.logs), 64)) for step in case.last_steps(number)[-LAST_STEPS:]]
    if case.exit_code in (None, 0) or len(steps) < LAST_STEPS or any(step.loss_is_finite for step in steps):
        return None
    found = Verdict("loss_nan", "training-dynamics", "unknown", "stop", confidence=0.6)
    found.why = f"The loss of the last {len(steps)} steps is not finite, and no line says why it ended"
    found.fingerprint = verdict.fingerprint("loss_nan")
    return found


def by_silence(case: Case) -> Verdict:
    """No line says anything: the code of the launch, or the steps."""
    code = case.exit_code
    steps = [step for number in range(min(len(case.seen.logs), 64)) for step in case.last_steps(number)]
    if code == 0:
        return Verdict(
            "clean_exit",
            "none",
            "unknown",
            "done",
            confidence=0.6,
            why="It exited 0 and no line says that anything failed",
            fingerprint=verdict.fingerprint("clean_exit"),
        )
    if code is None:
        if steps:
            return Verdict(
                "running",
                "none",
                "unknown",
                "none",
                confidence=0.5,
                why="The last lines are steps, and nothing says that it ended",
                fingerprint=verdict.fingerprint("running"),
            )
        return Verdict(
            "unknown",
            "unknown",
            "unknown",
            "retry",
            confidence=0.1,
            why="No line says what happened",
            fingerprint=verdict.fingerprint("unknown"),
        )
    how, number = exits.how(code - 128 if code > 256 else code, None)
    name, scope, action, why = {
        "term": ("sigterm_external", "scheduler", "none", "It was ended by TERM, and no line says by whom"),
        "kill": ("process_killed", "unknown", "retry", "It was killed, and no line says by whom"),
        "segv": (
            "segfault",
            "software",
            "retry",
            "The launch ended with a segmentation fault, of which no line says more",
        ),
    }.get(how, ("unknown", "unknown", "retry", f"It exited {code}, and no line says why"))
    if code == 124 and steps:
        name, scope, action, why = (
            "silent_hang",
            "unknown",
            "retry",
            "A time limit around the launch ran out, and no line says why",
        )
    return Verdict(
        name, scope, "unknown", action, confidence=0.3, why=why, fingerprint=verdict.fingerprint(name, str(number))
    )
