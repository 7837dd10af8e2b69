"""The stand-in for PBS does what PBS was measured to do: how jobs end. With LAB=pbs a real one is asked the same.

"Facts" are the measurements: OpenPBS 23.06, 6 hosts in network namespaces. Times are PBS's, made shorter by SCALE.
"""

from __future__ import annotations

import re
import time

import pytest
from pbs_cluster import FOLDER, IS_REAL, KILL_SCALE, SECOND, TWO, Cluster, wait_for, wrapped

DEAF = "trap '' TERM; "


# ── endings: facts §2 ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("script", "options", "code", "words"),
    [
        ("exit 0", (), 0, "and finished"),
        ("exit 3", (), 3, "and failed"),
        ("exit 256", (), 0, "and finished"),
        ("bash -c 'kill -SEGV $$'", (), 139, "and failed"),
        ("kill -SEGV $$", (), 139, "and failed"),
        ("kill -KILL $PPID; sleep 5", (), 265, "and failed"),
        ("if", (), 2, "and failed"),
    ],
)
def test_an_ending_has_this_exit_status(pbs: Cluster, script: str, options: tuple[str], code: int, words: str) -> None:
    ended = pbs.run(f"#!/bin/bash\n{script}\n", *options)
    assert (ended["substate"], ended["Exit_status"]) == (92 if code == 0 else 93, code)
    assert ended["comment"].startswith("Job run at ") and ended["comment"].endswith(words)


def test_with_the_wrapper_a_script_that_dies_of_a_signal_is_256_and_the_signal(pbs: Cluster) -> None:
    assert pbs.run("kill -SEGV $$\n", *wrapped())["Exit_status"] == 267


def test_an_interpreter_that_is_missing_is_127(pbs: Cluster) -> None:
    assert pbs.run("#!/no/such\n")["Exit_status"] == 127


def test_a_shell_that_is_missing_is_254_and_named_in_the_output(pbs: Cluster) -> None:
    job = pbs.submit("true\n", "-S", "/no/such")
    ended = pbs.ended(job)
    assert (ended["substate"], ended["Exit_status"]) == (93, 254)
    assert "pbs_mom, exec of /no/such failed with error: No such file or directory" in pbs.log(job)


# ── shells and signals: facts §1, §3 ──────────────────────────────────────────────────────────────────────────────


def test_a_login_shell_stands_above_the_script_and_dies_of_a_signal_that_the_script_traps(pbs: Cluster) -> None:
    script = "trap 'echo trapped' USR1\nps -o args= $PPID\necho ready\nwhile :; do sleep 0.1; done\n"
    job = pbs.running(script)
    assert pbs.log(job).startswith("-bash")
    assert pbs.alice(f"qsig -s USR1 {job}").code == 0
    assert pbs.ended(job)["Exit_status"] == 266


def test_with_the_wrapper_a_trapped_signal_is_the_scripts(pbs: Cluster) -> None:
    job = pbs.running(
        "trap 'echo trapped' USR1\ntrap 'sleep 1; exit 42' TERM\necho ready\nwhile :; do sleep 0.1; done\n", *wrapped()
    )
    pbs.alice(f"qsig -s USR1 {job}")
    pbs.said(job, lambda log: "trapped" in log)
    assert pbs.job(job)["job_state"] == "R"
    pbs.alice(f"qsig -s TERM {job}")
    assert pbs.ended(job)["Exit_status"] == 42


def test_qsig_term_kills_what_is_left_at_once(pbs: Cluster) -> None:
    job = pbs.running(f"{DEAF}echo ready\nwhile :; do sleep 0.1; done\n")
    pbs.alice(f"qsig -s TERM {job}")
    ended = pbs.ended(job)
    assert (ended["substate"], ended["Exit_status"]) == (93, 271)
    assert ended["comment"].endswith("and failed")


@pytest.mark.parametrize("name", ["URG", "WINCH", "CONT", "INT", "QUIT"])
def test_a_job_goes_on_after_these_signals(pbs: Cluster, name: str) -> None:
    job = pbs.running(f"trap 'echo trapped' {name}\necho ready\nwhile :; do sleep 0.1; echo on; done\n")
    assert pbs.alice(f"qsig -s {name} {job}").code == 0
    pbs.said(job, lambda log: log.partition("trapped")[2].count("on") > 5)
    assert pbs.job(job)["job_state"] == "R"


@pytest.mark.parametrize(
    ("name", "code", "text"),
    [
        ("FOO", 165, "qsig: Unknown/illegal signal name "),
        ("suspend", 159, "qsig: Unauthorized Request  "),
        ("0", 0, ""),
        ("NULL", 0, ""),
    ],
)
def test_what_qsig_says(pbs: Cluster, name: str, code: int, text: str) -> None:
    job = pbs.running("echo ready; sleep 600\n")
    said = pbs.alice(f"qsig -s {name} {job}")
    assert (said.code, said.err) == (code, f"{text}{job}\n" if text else "")


def test_qsig_of_a_job_that_has_ended_or_never_was(pbs: Cluster) -> None:
    job = pbs.submit("true\n")
    pbs.ended(job)
    assert pbs.alice(f"qsig {job}").code == 35
    said = pbs.alice("qsig 9999")
    assert said.code == 153 and said.err.startswith("qsig: Unknown Job Id 9999.")


REPORT = f"""#!/bin/bash
cat >{FOLDER}/probe.sh <<'END'
trap 'echo $1 TERM | tee -a {FOLDER}/got' TERM
echo $1 here
while :; do sleep 0.1; done
END
pbs_tmrsh {SECOND} /bin/bash {FOLDER}/probe.sh sister &
pbs_tmrsh "$(head -n 1 $PBS_NODEFILE)" /bin/bash {FOLDER}/probe.sh first &
trap 'echo script TERM | tee -a {FOLDER}/got' TERM
echo ready
while :; do sleep 0.1; done
"""


def test_only_processes_on_the_first_host_get_term(pbs: Cluster) -> None:
    job = pbs.running(REPORT, *TWO)
    pbs.said(job, lambda log: "sister here" in log and "first here" in log)
    pbs.alice(f"qdel {job}")
    assert pbs.ended(job)["substate"] == 91
    got = pbs.read("got").splitlines()
    assert "script TERM" in got and "first TERM" in got and "sister TERM" not in got
    # What a task prints after it is lost.
    assert "script TERM" in pbs.log(job) and "first TERM" not in pbs.log(job)


def test_a_signal_that_kills_takes_the_output_of_tasks_with_it_and_those_that_print(pbs: Cluster) -> None:
    script = f"""
trap 'echo script USR1' USR1
pbs_tmrsh {SECOND} /bin/bash -c 'while sleep 0.2; do echo sister $((i += 1)); done' &
pbs_tmrsh {SECOND} /bin/bash -c 'while sleep 0.2; do echo $((i += 1)) >{FOLDER}/count; done' &
echo ready
while :; do sleep 0.1; done
"""
    job = pbs.running(script, *TWO, *wrapped())
    sister = pbs.job(job)["exec_host"].split("+")[1].partition("/")[0]
    pbs.said(job, lambda log: "sister" in log)
    pbs.alice(f"qsig -s URG {job}")
    before = pbs.log(job).count("sister")
    pbs.said(job, lambda log: log.count("sister") > before + 2)
    pbs.alice(f"qsig -s USR1 {job}")
    pbs.said(job, lambda log: "script USR1" in log)
    wait_for(lambda: not pbs.root("pgrep -f 'echo siste[r]'", host=sister).out, lambda: pbs.log(job))
    seen = int(pbs.read("count") or 0)
    wait_for(lambda: int(pbs.read("count") or 0) > seen + 5, lambda: pbs.log(job))
    assert pbs.job(job)["job_state"] == "R"


def test_what_has_left_the_session_survives_the_job_and_nothing_else_does(pbs: Cluster) -> None:
    ended = pbs.run(
        "setsid -f bash -c 'touch $TMPDIR/out; exec sleep 1001'\nnohup sleep 1002 >/dev/null 2>&1 &\nsleep 1003 &\n"
        "until [[ -e $TMPDIR/out ]]; do sleep 0.1; done\nexit 0\n",
        "-l",
        "select=1:host=x4407c0s0b0n0",
    )
    assert ended["Exit_status"] == 0
    left = pbs.root("pgrep -a sleep", host="x4407c0s0b0n0").out
    pbs.root("pkill -f 'sleep 100'", host="x4407c0s0b0n0")
    assert "1001" in left and "1002" not in left and "1003" not in left


# ── qdel ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_qdel_is_term_then_kill_after_the_delay_and_who_it_was(pbs: Cluster) -> None:
    script = "trap 'echo TERM; qstat -f $PBS_JOBID | tr -d \"\\n\\t\"' TERM\necho ready\nwhile :; do sleep 0.1; done\n"
    job = pbs.running(script)
    began = time.monotonic()
    assert pbs.alice(f"qdel {job}").code == 0
    ended = pbs.ended(job)
    assert (ended["substate"], ended["Exit_status"]) == (91, 271)
    assert time.monotonic() - began > 9 * KILL_SCALE
    assert ended["comment"].endswith("and terminated by alice@aurora-pbs-0001.hostmgmt.cm.aurora.alcf.anl.gov")
    # Seen by the trap already: who did it, while state and substate are those of a running job (facts §1, 7).
    assert "terminated by alice@" in pbs.log(job) and "job_state = R" in pbs.log(job)
    assert "substate = 42" in pbs.log(job) or "substate = 41" in pbs.log(job)
    assert "Exit_status" not in pbs.log(job)


@pytest.mark.parametrize("shell", ["login", "wrapper"])
def test_qdel_with_a_trap_that_exits(pbs: Cluster, shell: str) -> None:
    options = wrapped() if shell == "wrapper" else ()
    job = pbs.running("trap 'exit 42' TERM\necho ready\nwhile :; do sleep 0.1; done\n", *options)
    pbs.alice(f"qdel {job}")
    ended = pbs.ended(job)
    assert (ended["substate"], ended["Exit_status"]) == (91, 42 if options else 271)


def test_qdel_by_root_names_root_and_sends_a_mail(pbs: Cluster) -> None:
    job = pbs.running("echo ready; sleep 600\n")
    pbs.root(f"qdel {job}")
    ended = pbs.ended(job)
    assert (ended["substate"], ended["Exit_status"]) == (91, 271)
    assert ended["comment"].endswith("and terminated by root@aurora-pbs-0001.hostmgmt.cm.aurora.alcf.anl.gov")
    if not IS_REAL:
        assert "Job to be deleted at request of root@" in pbs.mails()


@pytest.mark.parametrize("who", ["alice", "root"])
def test_qdel_by_force_is_kill_at_once(pbs: Cluster, who: str) -> None:
    job = pbs.running("trap 'echo TERM' TERM\necho ready\nwhile :; do sleep 0.1; done\n")
    (pbs.alice if who == "alice" else pbs.root)(f"qdel -W force {job}")
    ended = pbs.ended(job)
    assert (ended["substate"], ended["Exit_status"]) == (91, 265)
    assert "TERM" not in pbs.log(job)
    assert ("terminated by alice@" in ended["comment"]) == (who == "alice")
    assert who == "alice" or ended["comment"].endswith("and terminated")


def test_qdel_of_a_waiting_job(pbs: Cluster) -> None:
    job = pbs.submit("true\n", "-h")
    pbs.alice(f"qdel {job}")
    ended = pbs.ended(job)
    assert ended["substate"] == 91
    assert "Exit_status" not in ended and "exec_host" not in ended and "stime" not in ended


def test_qdel_of_what_has_ended_is_unknown_is_no_id_or_is_erased(pbs: Cluster) -> None:
    job = pbs.submit("true\n")
    pbs.ended(job)
    said = pbs.alice(f"qdel {job}")
    assert (said.code, said.err) == (35, f"qdel: Job has finished {job}\n")
    assert pbs.alice("qdel 9999").code == 153
    assert pbs.alice("qdel x").code == 1
    assert pbs.alice(f"qdel -x {job}").code == 0
    assert pbs.alice(f"qstat -x {job}").code == 153


def test_a_stranger_may_do_nothing(pbs: Cluster) -> None:
    job = pbs.running("echo ready; sleep 600\n")
    for command in ("qdel", "qsig", "qhold", "qalter -N x", "qrerun"):
        said = pbs.lab("as", "bob", "head", "bash", "-c", f"{command} {job}", check=False)
        assert (said.code, said.err) == (159, f"{command.split()[0]}: Unauthorized Request  {job}\n")


# ── walltime ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("shell", ["login", "wrapper"])
def test_at_the_walltime_term_comes_late_and_kill_after_it(pbs: Cluster, shell: str) -> None:
    script = "trap 'echo TERM $(date +%s)' TERM\necho ready\nfor ((i = 0; i < 9000; i++)); do sleep 0.1; done\n"
    job = pbs.running(script, "-l", "walltime=8", *(wrapped() if shell == "wrapper" else ()))
    ended = pbs.ended(job, 90)
    assert (ended["substate"], ended["Exit_status"]) == (93, -29)
    assert ended["comment"].endswith("and exceeded resource walltime")
    log = pbs.log(job)
    found = re.search(r"=>> PBS: job killed: walltime (\d+) exceeded limit 8", log)
    assert found and int(found[1]) >= 8
    began = time.mktime(time.strptime(ended["stime"]))
    assert int(re.search(r"TERM (\d+)", log)[1]) >= began + 8  # type: ignore[index]
    if not IS_REAL:
        assert "Job exceeded resource walltime" in pbs.mails()


def test_there_is_no_walltime_in_the_environment_but_in_qstat(pbs: Cluster) -> None:
    job = pbs.running("env\nqstat -f $PBS_JOBID\necho ready\n", "-l", "walltime=0:01:30")
    assert "WALLTIME" not in pbs.log(job)
    assert "    Resource_List.walltime = 00:01:30\n" in pbs.log(job)
    assert re.search(r"\n    stime = \w{3} \w{3} +\d+ \d\d:\d\d:\d\d \d{4}\n", pbs.log(job))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("90", "00:01:30"),
        ("1:00", "00:01:00"),
        ("168:00:00", "168:00:00"),
        ("00:90:00", "01:30:00"),
        ("1.2", "00:00:01"),
        ("1.5", "00:00:02"),
    ],
)
def test_walltimes_that_are_taken(pbs: Cluster, text: str, shown: str) -> None:
    job = pbs.submit("true\n", "-h", "-l", f"walltime={text}")
    assert pbs.job(job)["Resource_List"]["walltime"] == shown


@pytest.mark.parametrize("text", ["1-00:00:00", "2d", "1h", "30m", "1:2:3:4", "-1", "abc", "UNLIMITED"])
def test_walltimes_that_are_refused(pbs: Cluster, text: str) -> None:
    said = pbs.alice(f"echo true | qsub -l walltime={text}")
    assert (said.code, said.err) == (166, "qsub: Illegal attribute or resource value Resource_List.walltime\n")


def test_a_walltime_can_be_made_shorter_by_its_owner_and_is_in_force_at_once(pbs: Cluster) -> None:
    job = pbs.running("echo ready; sleep 600\n", "-l", "walltime=0:10:00")
    assert pbs.alice(f"qalter -l walltime=0:20:00 {job}").code == 159
    assert pbs.alice(f"qalter -l walltime=1 {job}").code == 0
    assert pbs.ended(job, 90)["Exit_status"] == -29


def test_what_cannot_be_changed_while_a_job_runs(pbs: Cluster) -> None:
    job = pbs.running("echo ready; sleep 600\n")
    said = pbs.alice(f"qalter -l select=3 {job}")
    assert said.code == 167
    assert said.err == f"qalter: Cannot modify attribute while job running  Resource_List.select {job}\n"
    assert pbs.alice(f"qalter -N other -W tolerate_node_failures=all {job}").code == 0
    assert pbs.job(job)["Job_Name"] == "other"
