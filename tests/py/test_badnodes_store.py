"""The file of bad nodes on disk: two writers lose nothing, be they Python or Bash, killed or not."""

import os
import random
import signal
import subprocess
import sys
import time
from datetime import date, timedelta
from pathlib import Path

import pytest
import test_badnodes

from outlast.badnodes import book, lock, store
from outlast.badnodes.book import Line
from outlast.badnodes.entry import Entry

ROOT = Path(__file__).parents[2]
DAY = date(2026, 11, 30)
PYTHON = """
import sys
from datetime import date
from pathlib import Path
from outlast.badnodes import book, store
from outlast.badnodes.entry import Entry
for number in range(int(sys.argv[3])):
    one = Entry("n1", date(2026, 11, 30), "hang", (f"job={sys.argv[2]}.{number}",))
    store.change(Path(sys.argv[1]), lambda lines: book.struck(lines, one))
    print(number, flush=True)
"""
BASH = """
source "$1/lib/badnodes.sh" && source "$1/lib/lock.sh"; export TZ=UTC0
text=$(declare -f $(compgen -A function _ol_badnodes_; compgen -A function ol_lock_) _ol_lock_break)
for ((number = 0; number < $4; number++)); do
  bash -c "$text; _ol_badnodes_append \\"\\$@\\"" \\
    _ "$2" 100 "$3.$number" hang '' n2 || exit
  echo "$number"
done
"""


def python(file: Path, name: str, count: int) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", PYTHON, str(file), name, str(count)]
    env = os.environ | {"PYTHONPATH": str(ROOT / "pyhelpers")}
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=env, start_new_session=True)


def bash(file: Path, name: str, count: int) -> subprocess.Popen[str]:
    words = ["bash", "-c", BASH, "_", str(ROOT), str(file), name, str(count)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True)


def said(process: subprocess.Popen[str]) -> int:
    """How many strikes a writer says that it has written."""
    return len(process.communicate(timeout=100)[0].split())


def strikes(file: Path) -> dict[str, float]:
    return {host: one.strikes for host, one in book.nodes(store.read(file)).items()}


def add(file: Path, host: str = "n1") -> list[Line]:
    return store.change(file, lambda lines: book.struck(lines, Entry(host, DAY, "hang")))


def left_over(file: Path) -> list[str]:
    return [path.name for path in file.parent.iterdir() if path != file]


def test_writers_at_once_lose_nothing_python_and_bash(tmp_path: Path) -> None:
    file = tmp_path / "bad_nodes.txt"
    file.write_text("# ours\nn3  2026-11-01  ECC")
    writers = [python(file, "1", 20), python(file, "2", 20), bash(file, "3", 12), bash(file, "4", 12)]
    assert [said(writer) for writer in writers] == [20, 20, 12, 12]
    assert strikes(file) == {"n3": 1, "n1": 40, "n2": 24}
    assert file.read_text().startswith("# ours\nn3  2026-11-01  ECC\n")
    assert left_over(file) == []


def test_a_killed_writer_costs_nobody_a_strike_and_keeps_nobody_waiting(tmp_path: Path) -> None:
    file = tmp_path / "bad_nodes.txt"
    file.write_text("# ours\n")
    dice = random.Random(4)
    told = {"n1": 0, "n2": 0}
    for number in range(8):
        host, victim = ("n1", python(file, f"v{number}", 500)) if number % 2 else ("n2", bash(file, f"v{number}", 500))
        assert victim.stdout is not None
        victim.stdout.readline()
        time.sleep(dice.random() / 10)  # where it is hit is chance; what must hold, holds everywhere
        os.killpg(victim.pid, signal.SIGKILL)
        told[host] += 1 + said(victim)
        begun_s = time.monotonic()
        add(file, "n3")
        assert time.monotonic() - begun_s < lock.STALE_S
        assert file.read_text().startswith("# ours\n")
    found = strikes(file)
    for host in told:
        # The last one may be in the file and not yet told.
        assert told[host] <= found[host] <= told[host] + 4
    assert found["n3"] == 8


def as_other_host(words: str) -> str:
    _, system, pid, number = words.split(" ")
    return f"elsewhere {system[::-1]} {pid} {number}\n"


def test_a_lock_of_another_node_is_waited_for_and_broken_when_it_is_old(tmp_path: Path) -> None:
    file = tmp_path / "bad_nodes.txt"
    with lock.held(file, 1) as mine:
        words = mine.words
    mine.path.write_text(as_other_host(words))
    with pytest.raises(lock.LockError, match="on elsewhere"):
        store.change(file, lambda lines: lines, wait_s=0.2)
    old = time.time() - lock.STALE_S - 5
    os.utime(mine.path, (old, old))
    add(file)
    assert strikes(file) == {"n1": 1}
    mine.path.write_text(as_other_host(words))
    os.utime(mine.path, (old, old))
    assert said(bash(file, "1", 1)) == 1
    assert strikes(file) == {"n1": 1, "n2": 1}
    assert left_over(file) == []


def test_bash_waits_for_a_lock_that_is_held(tmp_path: Path) -> None:
    file = tmp_path / "bad_nodes.txt"
    with lock.held(file, 1):
        writer = bash(file, "1", 1)
        with pytest.raises(subprocess.TimeoutExpired):
            writer.wait(1)
        assert not file.exists()
    assert said(writer) == 1


def test_who_has_lost_the_lock_writes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "bad_nodes.txt"
    file.write_text("# ours\n")

    def slow(lines: list[Line]) -> list[Line]:
        file.with_name("bad_nodes.txt.lock").write_text("somebody else\n")
        return book.struck(lines, Entry("n1", DAY, "hang"))

    with pytest.raises(lock.LockError):
        store.change(file, slow)
    assert file.read_text() == "# ours\n"


def test_what_an_editor_saved_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "bad_nodes.txt"
    file.write_text("# ours\n")
    edits = ["# ours\n# and mine\n"]

    def edited(lines: list[Line]) -> list[Line]:
        if edits:
            file.write_text(edits.pop())
        return book.struck(lines, Entry("n1", DAY, "hang"))

    store.change(file, edited)
    assert file.read_text() == "# ours\n# and mine\nn1  2026-11-30  hang\n"


@pytest.mark.parametrize("writer", [python, bash])
def test_a_link_is_neither_followed_nor_replaced(tmp_path: Path, writer: object) -> None:
    file, target = tmp_path / "bad_nodes.txt", tmp_path / "profile"
    target.write_text("umask 027\n")
    file.symlink_to(target)
    process = (python if writer is python else bash)(file, "1", 1)
    assert said(process) == 0
    assert target.read_text() == "umask 027\n"
    assert file.is_symlink()
    with pytest.raises(store.StoreError, match="is a link"):
        store.read(file)


@pytest.mark.parametrize("writer", [python, bash])
def test_mode_and_group_stay(tmp_path: Path, writer: object) -> None:
    file = tmp_path / "bad_nodes.txt"
    file.write_text("# ours\n")
    file.chmod(0o664)
    if os.geteuid() == 0:
        os.chown(file, -1, 4711)
    group = file.stat().st_gid
    assert said((python if writer is python else bash)(file, "1", 1)) == 1
    assert (file.stat().st_mode & 0o777, file.stat().st_gid) == (0o664, group)


@pytest.mark.parametrize(("folder", "mode"), [(0o755, 0o640), (0o2775, 0o660)])
@pytest.mark.parametrize("writer", [python, bash])
def test_a_new_file_is_the_groups_as_far_as_its_folder_is(
    tmp_path: Path, folder: int, mode: int, writer: object
) -> None:
    home = tmp_path / "group"
    home.mkdir()
    home.chmod(folder)
    assert said((python if writer is python else bash)(home / "bad_nodes.txt", "1", 1)) == 1
    assert (home / "bad_nodes.txt").stat().st_mode & 0o777 == mode


def test_a_file_that_is_none_of_bad_nodes_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "large").write_bytes(bytes(store.MOST_BYTES + 1))
    for name in ("fifo", "large"):
        with pytest.raises(store.StoreError, match="no file of bad nodes"):
            store.read(tmp_path / name)


def test_bash_reads_the_same_as_python(tmp_path: Path) -> None:
    dice = random.Random(7)
    each = 'set -o pipefail; for f in "$@"; do _ol_badnodes_read "$f" "$DAY"; echo ==; done'
    program = f"source {ROOT}/lib/badnodes.sh; {each}"
    today = DAY + timedelta(days=9)
    files = []
    for number in range(150):
        text = test_badnodes.anything(dice).replace("\x00", "")
        for _ in range(dice.randrange(6)):
            day = DAY + timedelta(days=dice.randrange(-120, 20))
            more = dice.choice(["", "  strikes=2", " strikes=0.5\tjob=7", " strikes=1.5 # x", " strikes=99999", "\r"])
            text += f"\nn{dice.randrange(6)}{dice.choice(['', '-hsn0', '.example.org'])} {day} hang{more}"
        files.append(tmp_path / str(number))
        files[-1].write_text(f"{text}\n", errors="surrogateescape", newline="")
    env = os.environ | {"DAY": str((today - date(1970, 1, 1)).days)}
    answer = subprocess.run(["bash", "-c", program, "_", *map(str, files)], env=env, capture_output=True, check=True)
    told = answer.stdout.decode("utf-8", "surrogateescape").split("==\n")
    for file, text in zip(files, told, strict=False):
        bad = book.worst(store.read(file), today)
        expected = [f"{one.score(today):012.6f} {(one.since - date(1970, 1, 1)).days} {one.host}" for one in bad]
        assert [line.rpartition(" ")[0] for line in text.strip().split("\n") if line] == expected, file.read_bytes()
