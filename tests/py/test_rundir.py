import errno
import os
import pwd
import stat
from pathlib import Path

import pytest

from outlast import rundir
from outlast.refused import Refused
from outlast.rundir import RunDir, RunDirError


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    old = os.umask(0o002)  # a group's usual one: it must not open the run to the group
    try:
        return rundir.create(tmp_path / "runs/r1", "#!/bin/bash\n", tmp_path)
    finally:
        os.umask(old)


def test_create_lets_only_the_owner_write_but_for_control(run: RunDir) -> None:
    assert mode(run.path) == 0o750
    assert mode(run.script) == 0o750
    assert mode(run.path / "checkpoints") == 0o750
    assert mode(run.path / "control") == 0o2770


def test_create_refuses_a_run_that_is_there(run: RunDir, tmp_path: Path) -> None:
    with pytest.raises(RunDirError, match="outlast resume"):
        rundir.create(run.path, "other", tmp_path)
    assert run.script.read_text() == "#!/bin/bash\n"


def test_remove_keeps_a_run_that_a_job_has_entered(run: RunDir) -> None:
    run.events.write_text("")
    rundir.remove(run)
    assert run.script.exists()
    run.events.unlink()
    rundir.remove(run)
    assert not run.path.exists()


def test_find_takes_a_path(run: RunDir) -> None:
    assert rundir.find(f"{run.path}/", []) == run


def test_find_takes_a_name_and_any_account(run: RunDir, tmp_path: Path) -> None:
    assert rundir.find("r1", [f"{tmp_path}/nothing", f"{tmp_path}/*"]) == run


def test_find_refuses_a_name_that_is_two_runs(run: RunDir, tmp_path: Path) -> None:
    rundir.create(tmp_path / "more/r1", "#!/bin/bash\n", tmp_path)
    with pytest.raises(RunDirError, match=r"more/r1 and .*runs/r1; type the path"):
        rundir.find("r1", [f"{tmp_path}/runs", f"{tmp_path}/more"])


@pytest.mark.parametrize("name", ["", "-rf", "a b", "r*", "a\nb", ".hidden", "$(id)"])
def test_find_refuses_what_is_no_name(name: str, run: RunDir, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="no name of a run"):
        rundir.find(name, [f"{tmp_path}/runs"])


def test_find_says_where_it_looked() -> None:
    with pytest.raises(RunDirError, match="no run r9 in /nowhere"):
        rundir.find("r9", ["/nowhere"])


def test_filled_takes_the_account_in_lower_case() -> None:
    env = {"USER": "ann", "HOME": "/home/ann"}
    assert rundir.filled("/{account}/{user_initial}/{user}{home}", "ABC", env) == "/abc/a/ann/home/ann"


def test_filled_asks_the_system_where_the_shell_says_nothing() -> None:
    own = pwd.getpwuid(os.geteuid())
    assert rundir.filled("{user_initial}/{user}{home}", "", {}) == f"{own.pw_name[0]}/{own.pw_name}{own.pw_dir}"


def test_setting_reads_the_value_that_bash_would(run: RunDir) -> None:
    run.script.write_text("OUTLAST_SITE='a b'\nOUTLAST_SCHEDULER=slurm\n  OUTLAST_SITE=other\n")
    assert (run.setting("SITE"), run.setting("SCHEDULER"), run.setting("NONE")) == ("a b", "slurm", "")


def test_ask_replaces_a_link_instead_of_following_it(run: RunDir, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    run.control("stop").symlink_to(victim)
    rundir.ask(run, "stop", "because")
    assert victim.read_text() == "mine"
    assert run.asked("stop") == ["because"]


def test_ask_leaves_a_file_that_the_group_can_change(run: RunDir) -> None:
    rundir.ask(run, "hold", "because", "type this")
    assert mode(run.control("hold")) == 0o660
    assert run.asked("hold") == ["because", "type this"]


@pytest.mark.parametrize("fails", ["replace", "fchmod"])
def test_ask_that_fails_leaves_nothing_behind(run: RunDir, monkeypatch: pytest.MonkeyPatch, fails: str) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    monkeypatch.setattr(*{"replace": (Path, "replace", full), "fchmod": (os, "fchmod", full)}[fails])
    with pytest.raises(rundir.RunDirError, match="Disk quota exceeded"):
        rundir.ask(run, "stop", "why")
    assert list((run.path / "control").iterdir()) == []


def test_clear_says_what_was_there(run: RunDir) -> None:
    rundir.ask(run, "stop", "because")
    assert rundir.clear(run, "stop", "hold") == ["stop"]
    assert run.asked("stop") == []


def test_check_owner_refuses_a_script_that_others_can_change(run: RunDir) -> None:
    rundir.check_owner(run, os.getuid())
    run.script.chmod(0o770)
    with pytest.raises(RunDirError, match="can be changed by others"):
        rundir.check_owner(run, os.getuid())


def test_check_owner_refuses_another_users_run(run: RunDir) -> None:
    with pytest.raises(RunDirError, match="another user"):
        rundir.check_owner(run, os.getuid() + 1)
