"""What a job asks its scheduler for, held against what a directive line can hold and what outlast asks for itself."""

import re

from outlast.job import Job
from outlast.refused import Refused
from outlast.site import Site

# Names as schedulers and sites give them: `m1234_g`, `proj-a.b`, PBS `workq@server`, Slurm `batch,extended`. An account
# is a part of a path too.
_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.@+-]*"
_FORMS = {
    "account": _NAME,
    "queue": rf"{_NAME}(,{_NAME})*",
    "reservation": rf"{_NAME}(,{_NAME})*",
    "exclude": r"[A-Za-z0-9_][A-Za-z0-9_.,\[\]-]*",
    # One kind of node: behind a + stands a second one, with a number of its own.
    "select": r"[A-Za-z0-9_][A-Za-z0-9_.,:=@/-]*",
    "filesystems": r"[A-Za-z0-9_][A-Za-z0-9_.:-]*",
}

_ENVIRONMENT = "nothing of the submitting shell enters a job; variables go under [env], modules and the like into setup"
_LOG = "outlast keeps the log in the run's folder"
_MAIL = "type --set mail.scheduler=true, and --set mail.to=ADDRESS"
_ONE = "a run is one job at a time; render one for each, with a run = NAME of its own"
_SLURM = {
    "job-name": "type --set run=NAME",
    "account": "type --account NAME",
    "partition": "type --queue NAME",
    "qos": "type --queue NAME (a queue of the site's has its QOS)",
    "nodes": "type --nodes N",
    "time": "type --walltime TIME",
    "exclude": "type --set exclude=NODE",
    "reservation": "type --set reservation=NAME",
    "mail-user": _MAIL,
    "mail-type": _MAIL,
    "output": _LOG,
    "error": _LOG,
    "open-mode": _LOG,
    "signal": "type --set deadline.margin_s=SEC",
    "requeue": "type --set successor=end or launch",
    "no-requeue": "type --set successor=end or launch",
    "export": _ENVIRONMENT,
    "export-file": _ENVIRONMENT,
    "get-user-env": _ENVIRONMENT,
    "array": _ONE,
    "wrap": "type --set command=COMMAND",
    "version": "sbatch would print its version, and submit nothing",
}
_SLURM_LETTERS = {
    **{"J": "job-name", "A": "account", "p": "partition", "q": "qos", "N": "nodes", "t": "time", "x": "exclude"},
    **{"o": "output", "e": "error", "a": "array", "V": "version"},
}
_SLURM_ALONE = "hHIkOQsvW"  # letters of sbatch that take no value, so another may follow: -Hq debug
_PBS = {
    "N": "type --set run=NAME",
    "A": "type --account NAME",
    "q": "type --queue NAME",
    "M": _MAIL,
    "m": _MAIL,
    **dict.fromkeys("jkoe", _LOG),
    "r": "type --set successor=end or launch",
    "S": "outlast's own shell becomes the script, so that PBS's signals reach it",
    "V": _ENVIRONMENT,
    "v": _ENVIRONMENT,
    "J": _ONE,
    "C": "qsub would no longer read the lines that begin with #PBS",
    "I": "a job that trains by itself is no interactive one; in one, type outlast launch",
}
_PBS_RESOURCES = {
    "select": "type --nodes N, and --set select=WHAT for what each must have",
    "nodes": "type --nodes N",
    "place": "the site's place counts",
    "walltime": "type --walltime TIME",
    "filesystems": "type --set filesystems=NAME",
}


def check(job: Job, site: Site) -> None:
    """Nothing, if the site's scheduler can be asked for the job as it is.

    Raises: Refused: a value that no directive can hold, or an option that is outlast's own; with what to type.
    """
    _check_filesystems(job, site)
    for key, form in _FORMS.items():
        value = getattr(job, key)
        for text in (value,) if isinstance(value, str) else value:
            if (text or value != text) and not re.fullmatch(form, text):
                raise Refused(f"{key} {text!r} goes into a directive, and is no name or list that a scheduler takes")
    for text in job.directives:
        _check_option(text, site.scheduler)


def check_root(root: str, site: Site) -> None:
    """Nothing, if the folder of this outlast can stand in a script for the site.

    Raises: Refused: PBS starts the script by a file of it, and a comma or an @ would end its name.
    """
    if site.scheduler == "pbs" and re.search(r"[\s\"'\\,@\x00-\x1f\x7f]", root):
        raise Refused(
            f"outlast lies in {root!r}, and a #PBS line cannot hold that path; "
            "move it to one without blanks, quotes, backslashes, commas and @"
        )


def _check_filesystems(job: Job, site: Site) -> None:
    if site.filesystems and not any(job.filesystems):
        usual = ":".join(site.filesystems)
        raise Refused(f"{site.name} takes no job without filesystems; type --set filesystems={usual}, or leave it out")


def _check_option(text: str, scheduler: str) -> None:
    where = f"directives {text!r}"
    # A scheduler reads directive lines by rules of its own: a blank ends a value, a quote joins lines.
    if re.search(r"[\s\"'\\\x00-\x1f\x7f]", re.sub(r"^-\w ", "", text)):
        raise Refused(f"{where} goes into a directive: no blank, quote, backslash or control character")
    if not re.match(r"-[A-Za-z]|--[A-Za-z]", text):
        raise Refused(f"{where} is no option of a scheduler; one begins with - or --, such as --licenses=x:1")
    own = _of_pbs(text) if scheduler == "pbs" else _of_slurm(text)
    if own:
        raise Refused(f"{where} is not for directives: {own}")


def _of_slurm(text: str) -> str:
    """What to type instead of an option of sbatch that is outlast's; empty: it may stay."""
    if not text.startswith("--"):
        letter = text[1:].lstrip(_SLURM_ALONE)[:1]
        return _SLURM.get(_SLURM_LETTERS.get(letter, ""), "")
    name = text[2:].partition("=")[0]
    # sbatch takes a long option by its first letters too.
    return next((advice for own, advice in _SLURM.items() if own.startswith(name)), "")


def _of_pbs(text: str) -> str:
    """The same for an option of qsub."""
    if text.startswith("-l"):
        names = re.findall(r"(?:^|,)\s*(\w+)(?==)", text[2:])
        return next((_PBS_RESOURCES[name] for name in names if name in _PBS_RESOURCES), "")
    return _PBS.get(text[1], "")
