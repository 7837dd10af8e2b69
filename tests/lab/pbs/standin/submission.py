"""What qsub makes of its options and of a script's #PBS lines: a job's attributes.

Errors in the text of the options are qsub's own (usage, status 2; in a directive: status 1), the rest is the server's.
"""

from __future__ import annotations

import getopt
import os
import re
import shlex
from collections.abc import Callable

from standin import times
from standin.codes import Code, Refused

OPTIONS = "a:A:c:C:e:fhIj:J:k:l:m:M:N:o:p:P:q:r:R:S:u:v:VW:Xz"
USAGE = """usage: qsub [-a date_time] [-A account_string] [-c interval]
	[-C directive_prefix] [-e path] [-f ] [-h ] [-I [-X]] [-j oe|eo] [-J X-Y[:Z]]
	[-k keep] [-l resource_list] [-m mail_options] [-M user_list]
	[-N jobname] [-o path] [-p priority] [-P project] [-q queue] [-r y|n]
	[-R o|e|oe] [-S path] [-u user_list] [-W otherattributes=value...]
	[-v variable_list] [-V ] [-z] [script | -- command [arg1 ...]]
       qsub --version"""

DEPENDENCIES = "after|afterok|afternotok|afterany|before|beforeok|beforenotok|beforeany|on"
# -W attributes that this PBS knows, and what their values look like.
WORDS = {
    "depend": rf"(?:({DEPENDENCIES}):[^,]+)(?:,({DEPENDENCIES}):[^,]+)*",
    "umask": r"[0-7]+",
    "tolerate_node_failures": r"all|job_start|none",
    "block": r"true|false",
    "group_list": r".*",
    "sandbox": r".*",
}


class Wrong(Exception):
    """Not for the server: the status of qsub, and its words."""

    def __init__(self, status: int, text: str) -> None:
        self.status, self.text = status, text
        super().__init__(text)


class Options:
    """Options in the order of their weight: what is there already is not changed by what comes later.

    The command line is read before the directives. Within one of them `-l` counts when it comes first, the others
    when they come last (facts §7, Directives).
    """

    def __init__(self) -> None:
        self.single: dict[str, str] = {}
        self.resources: dict[str, str] = {}
        self.words: dict[str, str] = {}

    def read(self, words: list[str]) -> list[str]:
        """Takes the options; what is left are the operands. Raises: getopt.GetoptError; Wrong."""
        found, rest = getopt.getopt(words, OPTIONS)
        single: dict[str, str] = {}
        for option, value in found:
            if option == "-l":
                self._resources(value)
            elif option == "-W":
                self._words(value)
            else:
                check = CHECKS.get(option)
                if check and not check(value):
                    raise Wrong(2, f"qsub: illegal {option} value\n{USAGE}")
                single[option] = value
        self.single = {**single, **self.single}
        return rest

    def _resources(self, text: str) -> None:
        for part in _split(text):
            name, equals, value = part.partition("=")
            if not equals or not value or " " in part.strip():
                raise Wrong(2, f"qsub: illegal -l value\n{USAGE}")
            self.resources.setdefault(name.strip(), value.strip())

    def _words(self, text: str) -> None:
        # The value of depend has commas itself.
        for part in re.split(r",(?=\w+=)", text):
            name, _, value = part.partition("=")
            pattern = WORDS.get(name)
            if pattern is None:
                raise Refused(Code.UNKNOWN_RESOURCE_IN_OPTION, f"Unknown resource: {name}")
            if not re.fullmatch(pattern, value) or "@otherserver" in value:
                raise Wrong(2, f"qsub: illegal -W value\n{USAGE}")
            self.words.setdefault(name, value)


def _split(text: str) -> list[str]:
    # At commas outside of quotes; a select has none.
    return [part for part in re.split(r",(?=\w+=)", text) if part]


CHECKS: dict[str, Callable[[str], bool]] = {
    "-a": lambda value: times.begin(value) is not None,
    "-j": lambda value: value in ("oe", "eo", "n"),
    # `d` alone is nothing: where to, it asks (facts §8).
    "-k": lambda value: bool(re.fullmatch(r"n|d?(o|e|oe|eo)", value)),
    "-m": lambda value: bool(re.fullmatch(r"n|[abej]+", value)),
    "-N": lambda value: bool(re.fullmatch(r"[^\s/@]{1,230}", value)),
    "-p": lambda value: bool(re.fullmatch(r"[+-]?\d+", value)),
    "-r": lambda value: value in ("y", "n"),
    "-R": lambda value: value in ("o", "e", "oe", "eo"),
}


def directives(script: str) -> list[list[str]]:
    """The words of each #PBS line above the first command. Indented ones count, `##PBS` and `# PBS` do not.

    Raises: Wrong: the script has Windows line ends.
    """
    found: list[list[str]] = []
    for number, line in enumerate(script.split("\n")):
        if line.endswith("\r"):
            raise Wrong(1, "qsub: script contains cr, lf")
        text = line.strip()
        if match := re.match(r"#PBS\s+(.*)", text):
            found.append(_line(match[1]))
        elif text and not text.startswith("#") and not (number == 0 and text.startswith(":")):
            break
    return found


def _line(text: str) -> list[str]:
    words = shlex.split(text)
    try:
        rest = Options().read(words)
    except getopt.GetoptError as err:
        said = "".join(f"qsub: invalid option -- '{c}'\n" for c in _unknown(words, err))
        raise Wrong(1, f"{said}qsub: directive error: {text} ") from None
    if rest:
        # No comment may stand behind an option.
        raise Wrong(1, f"qsub: directive error: {text} ")
    return words


def _unknown(words: list[str], err: getopt.GetoptError) -> str:
    # getopt(3) goes on after an unknown letter: of `--nodes=2` it names `-` and `n`, then `o` takes the rest.
    if err.opt and len(err.opt) == 1:
        return err.opt
    word = next((w for w in words if w.startswith("--")), "-")
    known = OPTIONS.replace(":", "")
    unknown = ""
    for letter in word[1:]:
        if letter in known:
            break
        unknown += letter
    return unknown or "-"


def unknown_letters(words: list[str], err: getopt.GetoptError) -> str:
    """The lines in which getopt(3) names the options that it does not know."""
    return "".join(f"qsub: invalid option -- '{c}'\n" for c in _unknown(words, err))


def environment(options: Options, queue: str, submit_host: str) -> dict[str, str]:
    """Variable_List: PBS_O_* of the submitting shell; with -V everything exported, with -v what is named (facts §4).

    Raises: Wrong: a name of -v has no value.
    """
    own = {
        f"PBS_O_{name}": os.environ[name] for name in ("HOME", "LANG", "LOGNAME", "PATH", "SHELL") if name in os.environ
    }
    own["PBS_O_WORKDIR"] = os.getcwd()
    own["PBS_O_SYSTEM"] = "Linux"
    # A shell's own, not for others.
    whole = (
        {k: v for k, v in os.environ.items() if k not in ("_", "SHLVL", "PWD", "OLDPWD")}
        if "-V" in options.single
        else {}
    )
    named: dict[str, str] = {}
    for word in _variables(options.single.get("-v", "")):
        name, equals, value = word.partition("=")
        if not equals and name not in os.environ:
            raise Wrong(1, "qsub: cannot send environment with the job")
        named[name] = value if equals else os.environ[name]
    return {**whole, **own, **named, "PBS_O_QUEUE": queue, "PBS_O_HOST": submit_host}


def _variables(text: str) -> list[str]:
    # Commas part them, unless behind a backslash or in quotes.
    parts: list[str] = [""]
    quote, escaped = "", False
    for letter in text:
        if escaped:
            parts[-1] += letter
            escaped = False
        elif letter == "\\":
            escaped = True
        elif quote:
            if letter == quote:
                quote = ""
            else:
                parts[-1] += letter
        elif letter in "'\"":
            quote = letter
        elif letter == ",":
            parts.append("")
        else:
            parts[-1] += letter
    return [part for part in parts if part]
