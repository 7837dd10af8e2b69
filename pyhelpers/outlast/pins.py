"""What a run trains with, written down at its first launch and compared at each later one: RUN/pins.toml.

Files are hashed by content; one above WHOLE bytes by its size and SAMPLES pieces of it. What has kept its size and its
time of change is not read again, so a restart costs a look at each file. docs/pins.md explains it to people.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from outlast.checkpoint import hashing
from outlast.checkpoint.verify import spread

WHOLE = 64 << 20  # bytes
SAMPLES = 64
PIECE = 1 << 20  # bytes
MOST = 20_000  # files
LEFT_OUT = (".git", "__pycache__")
GIT_S = 60


class PinsError(ValueError):
    """They can't be looked at, or pins.toml can't be read; the message says why."""


class LateError(PinsError):
    """There was no time to look at all of them."""


@dataclass(frozen=True)
class File:
    """A file as it was; `mtime_ns` only saves reading it again."""

    bytes: int
    mtime_ns: int
    hash: str


@dataclass(frozen=True)
class Pins:
    """`files` by what the job file names (a file or a folder), then by path inside it (of a file: `.`).

    `commit` and `changes` (a hash of what no commit has; empty: nothing) are of the trainer's folder; no commit: it is
    not pinned.
    """

    algorithm: str
    files: Mapping[str, Mapping[str, File]] = field(default_factory=dict)
    commands: Mapping[str, str] = field(default_factory=dict)
    commit: str = ""
    changes: str = ""

    def count(self) -> tuple[int, int]:
        """How many files, and their bytes."""
        every = [file for inside in self.files.values() for file in inside.values()]
        return len(every), sum(file.bytes for file in every)


def look(
    names: Iterable[str], project: Path, known: Pins | None, limit_s: float, git: bool, commands: Mapping[str, str]
) -> Pins:
    """What is there now. Names are relative to the project; what is not there has no files.

    Raises: LateError: it took longer; PinsError: too many files, or no git; OSError.
    """
    until = time.monotonic() + limit_s
    algorithm = known.algorithm if known else hashing.best()
    there = {name: dict(_inside(project / Path(name).expanduser())) for name in names}
    count = sum(map(len, there.values()))
    if count > MOST:
        raise PinsError(f"{count} files are too many to pin ({MOST} at most): name fewer of them in pins.files")
    old = known.files if known else {}
    todo = [(name, inside, path) for name, paths in there.items() for inside, path in paths.items()]

    def one(item: tuple[str, str, Path]) -> File:
        name, inside, path = item
        if time.monotonic() > until:
            raise LateError(f"{count} files could not be looked at in {limit_s:.0f} s")
        return _file(path, old.get(name, {}).get(inside), algorithm)

    made = spread(one, todo)
    files: dict[str, dict[str, File]] = {name: {} for name in there}
    for (name, inside, _), file in zip(todo, made, strict=True):
        files[name][inside] = file
    commit, changes = _git(project, algorithm) if git else ("", "")
    return Pins(algorithm, files, dict(commands), commit, changes)


def _inside(path: Path) -> Iterator[tuple[str, Path]]:
    """The files of a folder by their path in it, links to files too; of a file itself."""
    if not path.is_dir():
        if path.exists():
            yield ".", path
        return
    for folder, folders, names in os.walk(path, onerror=_raise):
        folders[:] = sorted(set(folders) - set(LEFT_OUT))
        for name in sorted(names):
            found = Path(folder, name)
            if found.is_file():
                yield _text(found.relative_to(path)), found


def _raise(err: OSError) -> None:
    raise err


def _text(path: Path) -> str:
    # A name may be any bytes, a text of TOML not.
    text = os.fsencode(path).decode("utf-8", "backslashreplace")
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text)


def _file(path: Path, known: File | None, algorithm: str) -> File:
    status = path.stat()
    if known and (known.bytes, known.mtime_ns) == (status.st_size, status.st_mtime_ns):
        return known
    return File(status.st_size, status.st_mtime_ns, digest(path, status.st_size, algorithm))


def digest(path: Path, size: int, algorithm: str) -> str:
    """The hash of a file's content; of a large one, of its size and pieces of it, the first and the last among them.

    Raises: HashError; OSError.
    """
    if size <= WHOLE:
        return hashing.of_file(path, algorithm)[1]
    hasher = hashing.new(algorithm)
    hasher.update(memoryview(str(size).encode()))
    with path.open("rb", buffering=0) as file:
        for number in range(SAMPLES):
            hasher.update(memoryview(os.pread(file.fileno(), PIECE, (size - PIECE) * number // (SAMPLES - 1))))
    return hasher.hexdigest()


def _git(project: Path, algorithm: str) -> tuple[str, str]:
    # Files that git does not know are left out: a training writes some itself.
    changes = _asked(project, "diff", "HEAD", "--binary", "--no-ext-diff", "--no-textconv")
    hasher = hashing.new(algorithm)
    hasher.update(memoryview(changes))
    return _asked(project, "rev-parse", "HEAD").decode().strip(), hasher.hexdigest() if changes else ""


def _asked(project: Path, *words: str) -> bytes:
    env = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    try:
        # Nothing of the repository runs (fsmonitor, drivers of diff), none of it is locked.
        call = ["git", "-C", str(project), "-c", "core.fsmonitor=false", *words]
        done = subprocess.run(call, capture_output=True, env=env, timeout=GIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as err:
        raise PinsError(f"git {words[0]} in {project}: {err}") from err
    if done.returncode:
        why = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise PinsError(f"git {words[0]} in {project}: {''.join(why) or f'status {done.returncode}'}")
    return done.stdout


def differences(known: Pins, now: Pins) -> list[str]:
    """What is another than it was, a line each. What is named only now, or no more, is none."""
    found: list[str] = []
    for name in known.files.keys() & now.files.keys():
        found += _files_differ(name, known.files[name], now.files[name])
    for command in sorted(known.commands.keys() & now.commands.keys()):
        if known.commands[command] != now.commands[command]:
            found.append(f"{command}: {_lines_differ(known.commands[command], now.commands[command])}")
    if known.commit and now.commit:
        if known.commit != now.commit:
            found.append(f"git: commit {now.commit[:12]}, was {known.commit[:12]}")
        if known.changes != now.changes:
            found.append(f"git: {_CHANGES[bool(known.changes), bool(now.changes)]}")
    return sorted(found)


_CHANGES = {
    (False, True): "there are changes now that no commit has",
    (True, False): "there were changes that no commit had, and now there are none",
    (True, True): "the changes that no commit has are others",
}


def _files_differ(name: str, old: Mapping[str, File], new: Mapping[str, File]) -> list[str]:
    def called(inside: str) -> str:
        return name if inside == "." else f"{name.rstrip('/')}/{inside}"

    if old and not new:
        return [f"{name} is missing"]
    found = [f"{called(inside)} is missing" for inside in old.keys() - new.keys()]
    found += [f"{called(inside)} is new" for inside in new.keys() - old.keys()]
    for inside in old.keys() & new.keys():
        if (old[inside].bytes, old[inside].hash) != (new[inside].bytes, new[inside].hash):
            at = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(new[inside].mtime_ns / 1e9))
            was = "" if old[inside].bytes == new[inside].bytes else f", was {old[inside].bytes}"
            found.append(f"{called(inside)} has changed ({new[inside].bytes} bytes{was}; changed {at})")
    return found


def _lines_differ(old: str, new: str) -> str:
    before, after = old.splitlines(), new.splitlines()
    lines = [f"-{line}" for line in before if line not in after] + [f"+{line}" for line in after if line not in before]
    return ", ".join(lines[:4]) + (f" and {len(lines) - 4} lines more" if len(lines) > 4 else "") or "in another order"


def missing(pins: Pins) -> list[str]:
    """What the job file names and is not there."""
    return sorted(name for name, inside in pins.files.items() if not inside)


def render(pins: Pins, when: str, job: str) -> str:
    """The text of pins.toml."""
    lines = [
        "# What this run trains with, as its first launch found it (docs/pins.md). Each launch compares; where it is"
    ]
    lines += ["# another, the run is held. `outlast resume RUN --accept-pins` takes what is there then."]
    lines += [f"written = {_quoted(when)}", f"job = {_quoted(job)}", f"algorithm = {_quoted(pins.algorithm)}"]
    if pins.commit:
        lines += ["", "[git]", f"commit = {_quoted(pins.commit)}", f"changes = {_quoted(pins.changes)}"]
    if pins.commands:
        lines += ["", "[commands]", *(f"{_quoted(name)} = {_quoted(text)}" for name, text in pins.commands.items())]
    for name, inside in pins.files.items():
        lines += ["", f"[files.{_quoted(name)}]"]
        lines += [
            f"{_quoted(path)} = {{ bytes = {file.bytes}, mtime_ns = {file.mtime_ns}, hash = {_quoted(file.hash)} }}"
            for path, file in sorted(inside.items())
        ]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    # A basic string of TOML is one of JSON, but for two halves of a character and DEL.
    return json.dumps(text.encode("utf-8", "backslashreplace").decode(), ensure_ascii=False).replace("\x7f", "\\u007f")


def parse(text: str) -> Pins:
    """The pins that a text is.

    Raises: PinsError.
    """
    try:
        raw = tomllib.loads(text)
        table: dict[str, dict[str, Any]] = raw.get("files", {})
        files = {name: {path: _one(file) for path, file in inside.items()} for name, inside in table.items()}
        git: dict[str, Any] = raw.get("git", {})
        commands = {str(name): str(said) for name, said in raw.get("commands", {}).items()}
        return Pins(str(raw["algorithm"]), files, commands, str(git.get("commit", "")), str(git.get("changes", "")))
    except (tomllib.TOMLDecodeError, KeyError, TypeError, ValueError, AttributeError) as err:
        raise PinsError(f"it holds no pins ({type(err).__name__}: {err})") from err


def _one(raw: Mapping[str, Any]) -> File:
    return File(int(raw["bytes"]), int(raw["mtime_ns"]), str(raw["hash"]))


def read(path: Path) -> Pins | None:
    """The pins of a run; None: it has none yet.

    Raises: PinsError; OSError.
    """
    try:
        return parse(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (PinsError, UnicodeDecodeError) as err:
        raise PinsError(f"{path}: {err}") from err
