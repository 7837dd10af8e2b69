"""The book of patterns: patterns.toml beside this file, and a user's own file of the same form before it."""

import re
from dataclasses import dataclass, field
from pathlib import Path

from outlast import toml
from outlast.refused import Refused

HERE = Path(__file__).parent
SCOPES = ("hardware", "fabric", "storage", "software", "training-dynamics", "scheduler", "config", "unknown", "none")
PERSISTENCE = ("transient", "systemic", "unknown")
ACTIONS = ("retry-exclude", "retry", "stop", "done", "none")
BLAMES = ("node", "few", "peer", "late", "rank", "none")
CASES = ("early", "late", "many", "one", "few", "clear", "unclear")
_OUTCOME = {"scope": SCOPES, "persistence": PERSISTENCE, "action": ACTIONS, "blame": BLAMES, "as": None}
_FLAGS = ("whole", "one_rank", "local_port", "sure")
_FORM_FLAGS = ("nameless", "noisy")


class PatternError(Refused):
    """A file of patterns is not as docs/crash-patterns.md says."""


@dataclass(frozen=True)
class Form:
    """One way in which a pattern is written; `words` are what the log is searched for, `regex` then decides."""

    words: tuple[str, ...]
    regex: re.Pattern[str]
    example: str
    source: str
    tier: int
    name: str
    outcome: dict[str, str]
    flags: frozenset[str]


@dataclass(frozen=True)
class Pattern:
    """What failed, and what follows; `cases` are other outcomes in the cases named in CASES."""

    name: str
    says: str
    outcome: dict[str, str]
    cases: dict[str, dict[str, str]]
    gives_way_to: tuple[str, ...]
    flags: frozenset[str]
    forms: tuple[Form, ...]


@dataclass(frozen=True)
class Noise:
    """A line that sounds like a failure and is none."""

    why: str
    regex: re.Pattern[str]
    example: str


@dataclass(frozen=True)
class Book:
    """All patterns, in the order in which they are tried."""

    patterns: tuple[Pattern, ...]
    noise: tuple[Noise, ...] = ()
    by_word: dict[str, list[tuple[int, Pattern, Form]]] = field(default_factory=dict)

    def words(self) -> list[str]:
        """What a line must have one of, to be looked at."""
        return sorted(self.by_word)

    def says(self, name: str) -> str:
        """The name in words; empty for one that is no pattern's."""
        return next((p.says for p in self.patterns if name in (p.name, p.outcome.get("as"))), "")


def load(own: Path | None = None) -> Book:
    """The patterns of outlast; those of the user's own file, if any, are tried first.

    Raises: PatternError: a file can't be read or breaks a rule.
    """
    files = [path for path in (own, HERE / "patterns.toml") if path]
    tables = [(path, toml.read(path, str(path))) for path in files]
    patterns = tuple(_pattern(path, table) for path, whole in tables for table in _tables(path, whole, "pattern"))
    noise = tuple(_noise(path, table) for path, whole in tables for table in _tables(path, whole, "noise"))
    book = Book(patterns, noise)
    place = 0
    for pattern in patterns:
        for form in pattern.forms:
            place += 1
            for word in form.words:
                book.by_word.setdefault(word, []).append((place, pattern, form))
    return book


def _tables(path: Path, whole: dict[str, object], kind: str) -> list[dict[str, object]]:
    unknown = sorted(set(whole) - {"pattern", "noise"})
    if unknown:
        raise PatternError(f"{path}: no key {unknown[0]!r}; a file of patterns has [[pattern]] and [[noise]]")
    found = whole.get(kind, [])
    if not isinstance(found, list) or not all(isinstance(table, dict) for table in found):
        raise PatternError(f"{path}: write [[{kind}]], a table for each")
    return found


def _pattern(path: Path, table: dict[str, object]) -> Pattern:
    name = _text(path, table, "name")
    where = f"{path}: pattern {name!r}"
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", name):
        raise PatternError(f"{where}: a name has letters, digits and . _ - only")
    _known(where, table, {"name", "says", "tier", "gives_way_to", "form", *_OUTCOME, *CASES, *_FLAGS})
    forms = table.get("form")
    if not isinstance(forms, list) or not forms:
        raise PatternError(f"{where} has no [[pattern.form]]")
    outcome = _outcome(where, {key: table[key] for key in _OUTCOME if key in table})
    lacking = [key for key in ("scope", "persistence", "action", "blame") if key not in outcome]
    if lacking:
        raise PatternError(f"{where} has no {lacking[0]}")
    cases = {case: _outcome(f"{where}, {case}", table[case]) for case in CASES if case in table}
    flags = frozenset(flag for flag in _FLAGS if table.get(flag))
    return Pattern(
        name=name,
        says=_text(path, table, "says"),
        outcome=outcome,
        cases=cases,
        gives_way_to=tuple(_words(where, table, "gives_way_to")),
        flags=flags,
        forms=tuple(_form(where, form, table, outcome.get("as", name)) for form in forms),
    )


def _form(where: str, form: object, table: dict[str, object], name: str) -> Form:
    if not isinstance(form, dict):
        raise PatternError(f"{where}: write [[pattern.form]]")
    _known(where, form, {"words", "regex", "example", "source", "tier", "as", "set", *_FORM_FLAGS})
    words = tuple(_words(where, form, "words"))
    if not words:
        raise PatternError(f"{where}: a form needs words, at least one of which stands in every line that it means")
    tier = form.get("tier", table.get("tier", 1))
    if not isinstance(tier, int) or not 0 <= tier <= 4:
        raise PatternError(f"{where}: tier is a number from 0 to 4")
    example = str(form.get("example", ""))
    made = Form(
        words=words,
        regex=_regex(where, form),
        example=example,
        source=str(form.get("source", "")),
        tier=tier,
        name=str(form.get("as", name)),
        outcome=_outcome(where, form.get("set", {})),
        flags=frozenset(flag for flag in _FORM_FLAGS if form.get(flag)),
    )
    if not example or not any(word in example for word in words):
        raise PatternError(f"{where}: the example has none of the words {', '.join(words)}")
    if not made.regex.search(example):
        raise PatternError(f"{where}: {made.regex.pattern!r} is not found in the example")
    return made


def _noise(path: Path, table: dict[str, object]) -> Noise:
    where = f"{path}: noise"
    _known(where, table, {"why", "regex", "example"})
    return Noise(_text(path, table, "why"), _regex(where, table), str(table.get("example", "")))


def _outcome(where: str, table: object) -> dict[str, str]:
    if not isinstance(table, dict):
        raise PatternError(f"{where} is a table")
    _known(where, table, set(_OUTCOME))
    for key, value in table.items():
        allowed = _OUTCOME[key]
        if not isinstance(value, str) or (allowed and value not in allowed):
            raise PatternError(f"{where}: {key} is one of {', '.join(allowed or ())}, not {value!r}")
    return dict(table)


def _known(where: str, table: dict[str, object], keys: set[str]) -> None:
    unknown = sorted(set(table) - keys)
    if unknown:
        raise PatternError(f"{where}: no key {unknown[0]!r}")


def _text(path: Path, table: dict[str, object], key: str) -> str:
    value = table.get(key)
    if not isinstance(value, str) or not value:
        raise PatternError(f"{path}: every pattern needs {key}")
    return value


def _words(where: str, table: dict[str, object], key: str) -> list[str]:
    value = table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(word, str) and word and "\n" not in word for word in value):
        raise PatternError(f"{where}: {key} is a list of words")
    return value


def _regex(where: str, table: dict[str, object]) -> re.Pattern[str]:
    try:
        return re.compile(str(table.get("regex", "")))
    except re.error as err:
        raise PatternError(f"{where}: {table.get('regex')!r} is no regular expression ({err})") from err
