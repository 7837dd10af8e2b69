"""Bash text for a rendered script: lib files copied word for word, values quoted."""

import re
import shlex
from pathlib import Path

from outlast.refused import Refused, nearest

ACCOUNT = ("{account}", "{account_as_typed}")  # filled in by for_account
# Filled in when the script runs: whoever submits it may be another member of the group.
RUN_TIME = {"{user}": '"$USER"', "{user_initial}": '"${USER:0:1}"', "{home}": '"$HOME"'}


CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class Inliner:
    """`inline("log", "job")` for a template: gives the text of lib/log.sh and lib/job.sh, and remembers both."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._needs: dict[str, list[str]] = {}  # by the file's name in messages

    def __call__(self, *names: str) -> str:
        """The files' text, in that order, without the line that tells shellcheck their shell.

        Raises: Refused: lib has no such file.
        """
        return "\n".join(self.copy(f"lib/{name}.sh") for name in names)

    def copy(self, file: str) -> str:
        """The text of one file of the tree, or of any other by its whole path, in the same way.

        Raises: Refused: there is no such file.
        """
        text = source(self._root / file, file)
        self._needs[file] = needs(text)
        return text

    def check(self) -> None:
        """Nothing, if every file that an inlined one needs is inlined too.

        Raises: Refused: one is not; the message names both.
        """
        for file, wanted in self._needs.items():
            for missing in sorted({f"lib/{name}.sh" for name in wanted} - self._needs.keys()):
                raise Refused(f"the template inlines {file} without {missing}, which it needs")


def source(path: Path, where: str) -> str:
    """A Bash file's text without its first lines for tools (`#!`, `# shellcheck shell=`).

    Raises: Refused: it can't be read.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    except OSError as err:
        raise Refused(f"{where}: {err.strerror}") from err
    while lines and re.match(r"#!|# shellcheck shell=", lines[0]):
        del lines[0]
    return "".join(lines)


def needs(text: str) -> list[str]:
    """The lib files of a header's line `# Needs    log, scheduler/slurm`; none for `nothing`."""
    line = re.search(r"^# Needs +(.+)$", text, re.M)
    if not line or line[1].startswith("nothing"):
        return []
    return [re.sub(r"^lib/|\.sh$", "", word.strip(" .")) for word in line[1].split(",")]


def words(texts: tuple[str, ...]) -> str:
    """The texts as words of a Bash command, quoted where needed, or where a reader may take one for several."""
    return " ".join(_quoted(text) if "," in text else shlex.quote(text) for text in texts)


def folder(key: str, text: str) -> str:
    """The text, if it names a folder from the root on and has no other placeholders than those above.

    Raises: Refused: it doesn't.
    """
    for name in re.findall(r"\{[^}]*\}?", text):
        if name not in RUN_TIME:
            raise Refused(f"{key} = {text!r} has {name}{nearest(name, [*RUN_TIME, *ACCOUNT])}")
    if CONTROL.search(text):
        raise Refused(f"{key} = {text!r} has a line end or a control character")
    if text and not text.startswith(("/", "{home}")):
        raise Refused(f"{key} = {text!r} is no absolute path; start it with / or {{home}}")
    return text


def for_account(text: str, account: str) -> str:
    """The text with {account} (in lower case) and {account_as_typed} filled in."""
    return text.replace("{account}", account.lower()).replace("{account_as_typed}", account)


def value(text: str) -> str:
    """One text as a Bash word, in quotes; {user}, {user_initial} and {home} become the variables they stand for."""
    parts = re.split(r"(\{user\}|\{user_initial\}|\{home\})", text)
    return "".join(RUN_TIME.get(part) or _quoted(part) for part in parts if part) or "''"


def _quoted(text: str) -> str:
    word = shlex.quote(text)
    return (
        word if word != text else f"'{text}'"
    )  # a bare word may be a command's name: shellcheck asks, and so would a reader


def function(name: str, comment: str, lines: tuple[str, ...]) -> str:
    """A Bash function with these lines, or one that does nothing."""
    body = "".join(f"  {line}\n" for line in lines or (":",))
    return f"# {comment}\n{name}() {{\n{body}}}\n"
