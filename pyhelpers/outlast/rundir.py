"""A run's directory: where it is, how it is made, what people may put into control/. docs/run-directory.md."""

import contextlib
import glob
import os
import pwd
import re
import secrets
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from outlast import inline
from outlast.refused import Refused

FOLDERS = ("logs", "control", "checkpoints", "lease", "quarantine", "reports", "outbox", "tool")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")


class RunDirError(Refused):
    """The run directory is not there, not ours, or can't be written."""

    status = 1


@dataclass(frozen=True)
class RunDir:
    """The directory of one run, and the names in it."""

    path: Path

    @property
    def name(self) -> str:
        """The run's name: its folder's."""
        return self.path.name

    @property
    def script(self) -> Path:
        """What every job of the chain runs."""
        return self.path / "job.sh"

    @property
    def events(self) -> Path:
        """The ledger."""
        return self.path / "events.jsonl"

    @property
    def finished(self) -> Path:
        """Is there once the run has finished."""
        return self.path / "finished"

    @property
    def pins(self) -> Path:
        """What its first launch found (pins.py)."""
        return self.path / "pins.toml"

    @property
    def patterns(self) -> Path | None:
        """What crash.patterns of its job named, as the first job has copied it; None: no such file."""
        path = self.path / "patterns.toml"
        return path if path.is_file() and self.setting("CRASH_PATTERNS") else None

    def control(self, kind: str) -> Path:
        """The control file `stop`, `save` or `hold`."""
        return self.path / "control" / kind

    def asked(self, kind: str) -> list[str]:
        """The lines of a control file: why, then what to type; empty where there is none."""
        try:
            text = self.control(kind).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return []
        return text.splitlines() or [""]

    def setting(self, name: str, default: str = "") -> str:
        """The value of OUTLAST_NAME in the run's job script, or the default where it has none.

        Raises: RunDirError: there is no job script, or the line is torn.
        """
        try:
            text = self.script.read_text(encoding="utf-8", errors="replace")
        except OSError as err:
            raise RunDirError(f"{self.script}: {err.strerror}; is {self.path} a run?") from err
        line = re.search(rf"^OUTLAST_{name}=(.*)$", text, re.M)
        try:
            return " ".join(shlex.split(line[1])) if line else default
        except ValueError as err:
            raise RunDirError(f"{self.script}: OUTLAST_{name} is no whole line; is the file cut short?") from err

    @property
    def bad_nodes(self) -> Path:
        """The file of bad nodes that its jobs read: what its script says, else the one beside the runs."""
        text = self.setting("BAD_NODES") if self.script.is_file() else ""
        for name, word in inline.RUN_TIME.items():
            text = text.replace(word.strip('"'), name)
        return Path(filled(text, "", os.environ)) if text else self.path.parent / "bad_nodes.txt"


def is_run(path: Path) -> bool:
    """Has this folder the files of a run?

    Raises: RunDirError: nobody lets us look.
    """
    try:
        return (path / "job.sh").is_file() or (path / "events.jsonl").is_file()
    except OSError as err:
        raise RunDirError(f"{path}: {err.strerror}; a run is open to its owner and their group") from err


def find(run: str, places: list[str]) -> RunDir:
    """The run that a person means: a path (it has a slash), or a name in one of the places (glob patterns).

    Raises: Refused: it is no name; RunDirError: there is no such run, or more than one.
    """
    if "/" in run or run in (".", ".."):
        path = Path(os.path.realpath(run))
        if not is_run(path):
            raise RunDirError(f"{path} is no run: it has neither job.sh nor events.jsonl")
        return RunDir(path)
    if not _NAME.fullmatch(run):
        raise Refused(f"{run!r} is no name of a run: letters, digits and . _ - inside")
    found = sorted({Path(os.path.realpath(path)) for place in places for path in glob.glob(f"{place}/{run}")})
    found, closed = _open_to_us(found)
    if not found:
        raise closed or RunDirError(f"no run {run} in {', '.join(places)}; type its path, or set OUTLAST_RUNS")
    if len(found) > 1:
        raise RunDirError(f"{run} is {' and '.join(map(str, found))}; type the path")
    return RunDir(found[0])


def _open_to_us(paths: list[Path]) -> tuple[list[Path], RunDirError | None]:
    """Those that are runs, and what is wrong with one that we may not enter, if there is any."""
    runs, closed = [], None
    for path in paths:
        try:
            runs += [path] if is_run(path) else []
        except RunDirError as err:
            closed = err
    return runs, closed


def filled(pattern: str, account: str, env: Mapping[str, str]) -> str:
    """A runs_dir with {account}, {account_as_typed}, {user}, {user_initial} and {home} filled in as a job does."""
    user = env.get("USER") or _login("pw_name", str(os.geteuid()))
    values = {"user": user, "user_initial": user[:1], "home": env.get("HOME") or _login("pw_dir", "~")}
    pattern = inline.for_account(pattern, account)
    for name, value in values.items():
        pattern = pattern.replace(f"{{{name}}}", value)
    return pattern


def _login(what: str, default: str) -> str:
    """What the system knows of this user, as `id -un` does: not every shell sets USER and HOME."""
    try:
        return str(getattr(pwd.getpwuid(os.geteuid()), what))
    except KeyError:
        return default


def create(path: Path, script: str, project: Path) -> RunDir:
    """A new run directory with its job script: only its owner writes there, but for control/, where the group may.

    Raises: RunDirError: the run exists already, or the folder can't be made.
    """
    run = RunDir(path)
    taken = RunDirError(f"{path} is a run already; type outlast resume {path}, or give it a name: --set run=NAME")
    if is_run(path):
        raise taken
    try:
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(0o750)
        for name in FOLDERS:
            (path / name).mkdir(exist_ok=True)
            (path / name).chmod(0o2770 if name == "control" else 0o750)
        if not _write_first(run.script, script, 0o750):
            raise taken
        write(path / "project_dir", f"{project}\n", 0o640)
    except OSError as err:
        raise RunDirError(f"{err.filename}: {err.strerror}") from err
    return run


def remove(run: RunDir) -> None:
    """Remove a run that `create` has made and that no job has ever entered."""
    if not run.events.exists():
        shutil.rmtree(run.path, ignore_errors=True)


def _write_first(path: Path, text: str, mode: int) -> bool:
    """Write a new file whole; of several who do so at once one has done it, and to the others it is false.

    Raises: OSError.
    """
    mine = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    write(mine, text, mode)
    try:
        os.link(mine, path)
    except FileExistsError:
        return False
    finally:
        mine.unlink()
    return True


def write(path: Path, text: str, mode: int) -> None:
    """Write a file whole: readers see the old one or the new one.

    Raises: OSError.
    """
    new = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, mode)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            os.fchmod(file.fileno(), mode)
        new.replace(path)
    finally:
        with contextlib.suppress(OSError):
            new.unlink(missing_ok=True)


def ask(run: RunDir, kind: str, why: str, todo: str = "") -> None:
    """Put a control file into the run; the group may, too.

    Raises: RunDirError: it can't be written.
    """
    try:
        write(run.control(kind), f"{why}\n{todo}\n" if todo else f"{why}\n", 0o660)
    except OSError as err:
        raise RunDirError(f"{run.control(kind)}: {err.strerror}; its owner and their group may write there") from err


def clear(run: RunDir, *kinds: str) -> list[str]:
    """Remove control files; the kinds that were there.

    Raises: RunDirError: one can't be removed.
    """
    try:
        there = [kind for kind in kinds if run.control(kind).exists()]
        for kind in there:
            run.control(kind).unlink(missing_ok=True)
    except OSError as err:
        raise RunDirError(f"{err.filename}: {err.strerror}") from err
    return there


def check_owner(run: RunDir, uid: int) -> None:
    """Nothing, if job.sh is this user's and nobody else can change it: it is about to run as them.

    Raises: RunDirError: it isn't.
    """
    try:
        for path in (run.path, run.script):
            status = path.stat()
            if status.st_uid != uid:
                raise RunDirError(f"{path} is another user's; ask them, or render a run of your own")
            if status.st_mode & 0o022:
                raise RunDirError(f"{path} can be changed by others; look at it, then type chmod go-w {path}")
    except OSError as err:
        raise RunDirError(f"{err.filename}: {err.strerror}") from err
