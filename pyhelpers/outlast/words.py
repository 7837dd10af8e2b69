"""The words of a job's commands: what outlast fills into them, and what would not do there what it looks like."""

import re

from outlast.job import Job
from outlast.refused import Refused, nearest

# The first five are filled in by the script, which knows them only at each launch.
PLACEHOLDERS = ("{ckpt_dir}", "{resume}", "{nodes}", "{ranks}", "{run}", "{target_step}")
_OF_ON_DURABLE = ("{checkpoint}", "{step}", "{score}", "{run}")
_OPERATORS = ("|", "|&", "||", "&&", "&", ";", ">", ">>", "<", "<<", "2>", "2>&1", "&>", ">&2")
# What starts ranks again by itself. Elsewhere --max-restarts is an option of the trainer's own.
_RESTARTERS = ("torchrun", "torch.distributed.run", "torch.distributed.launch", "accelerate")


def check(job: Job) -> None:
    """Nothing, if the commands of the job can be run as they stand.

    Raises: Refused: they can't; what to type instead.
    """
    _check_names("command", job.command, PLACEHOLDERS)
    _check_names("checkpoint.on_durable", job.checkpoint.on_durable, _OF_ON_DURABLE)
    _check_command(job)
    _check_operators(job)
    _check_restarts(job)


def _check_names(key: str, words: tuple[str, ...], known: tuple[str, ...]) -> None:
    for name in re.findall(r"\{[a-z_]+\}", " ".join(words)):
        if name not in known:
            raise Refused(f"{key} has {name}{nearest(name, list(known))}")


def _check_command(job: Job) -> None:
    if not job.command:
        raise Refused('command is missing; for example command = "python3 -u train.py {resume}"')
    for word in job.command:
        if "{target_step}" in word and not job.progress.target_step:
            raise Refused("command has {target_step}; type --set progress.target_step=N too")
        if "{resume}" in word and word != "{resume}":
            raise Refused(f"command has {word!r}; {{resume}} stands alone, the preset makes words of it")


def _check_operators(job: Job) -> None:
    for key, words in (("command", job.command), ("checkpoint.on_durable", job.checkpoint.on_durable)):
        for word in words:
            if word in _OPERATORS:
                raise Refused(
                    f"{key} has the word {word}, and no shell runs it; put it into a script, or type "
                    f"{key.rpartition('.')[2]} = \"bash -c '... {word} ...'\""
                )


def _check_restarts(job: Job) -> None:
    typed = [part for word in job.command for part in word.split()]  # bash -c 'torchrun ...' too
    if job.preset != "torchrun" and not any(word.rpartition("/")[2] in _RESTARTERS for word in typed):
        return
    words = [word.replace("_", "-").partition("=") for word in typed]
    for at, (name, equals, value) in enumerate(words):
        count = value if equals else words[at + 1][0] if at + 1 < len(words) else ""
        if name == "--max-restarts" and count != "0":
            raise Refused("command has --max-restarts, and outlast is what restarts here; leave it out")
