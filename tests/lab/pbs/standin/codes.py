"""PBS's errors. A command's exit status is the number's low byte (facts §7)."""

from __future__ import annotations

from enum import IntEnum


class Code(IntEnum):
    UNKNOWN_JOB = 15001
    UNKNOWN_RESOURCE_IN_OPTION = 15002
    UNAUTHORIZED = 15007
    NO_CONNECTION = 15010
    BAD_SIGNAL = 15013
    BAD_VALUE = 15014
    RUNNING = 15015
    BAD_STATE = 15016
    UNKNOWN_QUEUE = 15018
    QUEUE_DISABLED = 15021
    QUEUE_DENIED = 15022
    BAD_USER = 15023
    UNROUTABLE = 15039
    UNKNOWN_RESOURCE = 15035
    LIMIT = 15036
    FINISHED = 15139


# As printed, blanks at the end included: what follows is the job's id.
TEXTS = {
    Code.UNKNOWN_JOB: "Unknown Job Id",
    Code.UNAUTHORIZED: "Unauthorized Request ",
    Code.BAD_SIGNAL: "Unknown/illegal signal name",
    Code.BAD_STATE: "Request invalid for state of job",
    Code.UNKNOWN_QUEUE: "Unknown queue",
    Code.QUEUE_DISABLED: "Queue is not enabled",
    Code.QUEUE_DENIED: "Access to queue is denied",
    Code.UNROUTABLE: "Job rejected by all possible destinations",
    Code.LIMIT: "Job violates queue and/or server resource limits",
    Code.FINISHED: "Job has finished",
}


class Refused(Exception):
    """What PBS answers when it does not do it: a number and a text."""

    def __init__(self, code: int, text: str = "") -> None:
        self.code = int(code)
        self.text = text or TEXTS[Code(code)]
        super().__init__(self.text)
