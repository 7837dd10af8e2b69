"""The stand-in for PBS: what a job finds, what it leaves, and tasks on its hosts (test_pbs_standin.py has more)."""

from __future__ import annotations

import re

import pytest
from pbs_cluster import FOLDER, SECOND, TWO, Cluster, wait_for

# ── environment and files: facts §4, §8 ───────────────────────────────────────────────────────────────────────────


def test_the_environment_of_a_job(pbs: Cluster) -> None:
    pbs.write("job.sh", "env | sort; pwd; umask; echo $0; cat; dirname $0 | xargs stat -c %a; stat -c '%a %U' $0\n")
    job = pbs.alice(
        f"FOO=bar qsub -N named -k doe -j oe -o {FOLDER}/ -v B='x y',L='a\\,b' -l select=1:ncpus=3 job.sh"
    ).out.strip()
    pbs.ended(job)
    lines = pbs.log(job).splitlines()
    found = dict(line.split("=", 1) for line in lines if "=" in line)
    assert "FOO" not in found
    assert (found["B"], found["L"]) == ("x y", "a,b")
    assert found["PBS_JOBID"] == job and found["PBS_JOBNAME"] == "named"
    assert found["PBS_NODEFILE"] == f"/var/spool/pbs/aux/{job}"
    assert (found["NCPUS"], found["OMP_NUM_THREADS"]) == ("3", "3")
    assert found["TMPDIR"] == f"/var/tmp/pbs.{job}"
    assert (found["PBS_ENVIRONMENT"], found["ENVIRONMENT"]) == ("PBS_BATCH", "BATCH")
    assert (found["PBS_O_WORKDIR"], found["PBS_QUEUE"]) == (FOLDER, "workq")
    assert found["PATH"].endswith(":/opt/pbs/bin")
    names = {"PBS_NODENUM", "PBS_TASKNUM", "PBS_MOMPORT", "PBS_JOBCOOKIE", "PBS_JOBDIR"}
    assert names <= set(found)
    assert {f"PBS_O_{name}" for name in ("HOME", "HOST", "LOGNAME", "PATH", "QUEUE", "SHELL", "SYSTEM", "LANG")} <= set(
        found
    )
    assert lines[-5:] == ["/home/alice", "0077", f"/var/spool/pbs/mom_priv/jobs/{job}.SC", "751", "700 alice"]


def test_capital_v_carries_what_is_exported_and_the_login_shell_sets_path_anew(pbs: Cluster) -> None:
    pbs.write("job.sh", "env\n")
    job = pbs.alice(f"FOO=bar SLURM_JOB_ID=7 PATH=$PATH:/mine qsub -V -k doe -j oe -o {FOLDER}/ job.sh").out.strip()
    pbs.ended(job)
    assert "\nFOO=bar\n" in f"\n{pbs.log(job)}" and "SLURM_JOB_ID=7" in pbs.log(job)
    assert not re.search("^PATH=.*mine", pbs.log(job), re.MULTILINE)


def test_tmpdir_is_on_every_host_and_goes_with_the_job(pbs: Cluster) -> None:
    job = pbs.submit(f"stat -c '%a %U' $TMPDIR; pbs_tmrsh {SECOND} /bin/sh -c 'stat -c \"%a %U\" $TMPDIR'\n", *TWO)
    hosts = [word.partition("/")[0] for word in pbs.ended(job)["exec_host"].split("+")]
    pbs.said(job, lambda log: log.splitlines() == ["700 alice"] * 2)
    left = "ls -d /var/tmp/pbs.*; ls /var/spool/pbs/aux"
    wait_for(lambda: not any(pbs.root(left, host=host).out for host in hosts), lambda: str(hosts))


def test_a_program_behind_dashes_is_the_job_itself(pbs: Cluster) -> None:
    said = pbs.alice(f"qsub -k doe -j oe -o {FOLDER}/ -- /bin/bash -c 'echo $PATH; exit 7'")
    ended = pbs.ended(said.out.strip())
    assert (ended["Exit_status"], ended["Job_Name"]) == (7, "STDIN")
    assert pbs.log(said.out.strip()) == "/bin:/usr/bin\n"


@pytest.mark.parametrize(
    ("options", "lines"),
    [
        (("-l", "select=2:ncpus=2"), "a a"),
        (("-l", "select=2:ncpus=2", "-l", "place=scatter"), "a b"),
        (("-l", "select=2:ncpus=2:mpiprocs=2", "-l", "place=scatter"), "a a b b"),
        (("-l", "select=1:ncpus=2:mpiprocs=2+2:ncpus=1", "-l", "place=scatter"), "a a b c"),
        (("-l", "nodes=2:ppn=2"), "a a b b"),
        ((), "a"),
    ],
)
def test_the_lines_of_the_nodefile_are_full_names(pbs: Cluster, options: tuple[str, ...], lines: str) -> None:
    job = pbs.submit("cat $PBS_NODEFILE; stat -c '%a %U' $PBS_NODEFILE\n", *options)
    pbs.ended(job)
    *found, mode = pbs.log(job).splitlines()
    names = {name: letter for letter, name in zip("abc", dict.fromkeys(found), strict=False)}
    assert " ".join(names[name] for name in found) == lines
    assert all(re.fullmatch(r"x4407c0s\db0n0\.hsn\.cm\.aurora\.alcf\.anl\.gov", name) for name in found)
    assert mode == "644 root"


def test_without_k_the_log_comes_after_the_end_into_the_folder_of_qsub(pbs: Cluster) -> None:
    pbs.write("later.sh", "echo out; echo err >&2; ls -l /var/spool/pbs/spool/$PBS_JOBID.OU | cut -c1-10\n")
    job = pbs.alice("qsub later.sh").out.strip()
    pbs.ended(job)
    number = job.partition(".")[0]
    for name, text in (("o", "out\n-rw-------\n"), ("e", "err\n")):
        wait_for(lambda name=name, text=text: pbs.read(f"later.sh.{name}{number}") == text, lambda: str(pbs.job(job)))


@pytest.mark.parametrize(("option", "mode"), [((), 0o600), (("-W", "umask=022"), 0o644)])
def test_a_jobs_files_are_private_unless_umask_says_otherwise(pbs: Cluster, option: tuple[str, ...], mode: int) -> None:
    job = pbs.submit(f"umask; touch {FOLDER}/made.$PBS_JOBID\n", *option)
    pbs.ended(job)
    folder = pbs.dir / "flare/projects/abc123/alice"
    assert (folder / f"{job}.OU").stat().st_mode & 0o777 == mode
    assert (folder / f"made.{job}").stat().st_mode & 0o777 == mode
    assert pbs.log(job).strip() == ("0022" if option else "0077")


def test_a_live_log_is_appended_to_and_one_that_is_delivered_replaces(pbs: Cluster) -> None:
    pbs.write("kept.log", "before\n")
    pbs.ended(pbs.submit("echo after\n", "-o", f"{FOLDER}/kept.log"))
    assert pbs.read("kept.log") == "before\nafter\n"
    pbs.write("kept.log", "before\n")
    pbs.ended(pbs.submit("echo after\n", "-o", f"{FOLDER}/kept.log", "-k", "n"))
    wait_for(lambda: pbs.read("kept.log") == "after\n", lambda: pbs.read("kept.log"))


def test_a_missing_log_folder_holds_a_job_after_21_tries(pbs: Cluster) -> None:
    job = pbs.submit("true\n", "-o", f"{FOLDER}/no/such/log")
    held = pbs.until(job, lambda now: now["job_state"] == "H")
    assert (held["substate"], held["run_count"], held["Exit_status"]) == (20, 21, -3)
    assert held["comment"] == "job held, too many failed attempts to run"


def test_a_missing_log_folder_without_k_leaves_the_log_with_the_first_host(pbs: Cluster) -> None:
    job = pbs.submit("echo kept; hostname\n", "-k", "n", "-o", f"{FOLDER}/no/such/log")
    ended = pbs.ended(job)
    assert (ended["substate"], ended["Exit_status"], ended["Stageout_status"]) == (92, 0, 0)
    host = ended["exec_host"].partition("/")[0]
    assert pbs.root(f"cat /var/spool/pbs/undelivered/{job}.OU", host=host).out == f"kept\n{host}\n"


# ── pbs_tmrsh, pbsdsh: facts §5 ───────────────────────────────────────────────────────────────────────────────────


def test_pbs_tmrsh_gives_back_a_status_and_its_output_goes_to_the_jobs(pbs: Cluster) -> None:
    script = f"""
second={SECOND}
echo "captured: $(pbs_tmrsh $second /bin/echo hello)"
pbs_tmrsh $second /bin/bash -c 'exit 7'; echo exit: $?
pbs_tmrsh $second /bin/bash -c 'kill -9 $$'; echo signal: $?
pbs_tmrsh $second /no/such; echo missing: $?
pbs_tmrsh $second 'echo a; echo b' 2>/dev/null; echo one word: $?
pbs_tmrsh ${{second%%.*}} /bin/true; echo short: $?
FOO=bar pbs_tmrsh $second /bin/bash -c 'echo $PWD $PATH [$FOO] $(umask) $PBS_JOBID'
"""
    job = pbs.submit(script, *TWO)
    pbs.ended(job)
    log = pbs.said(job, lambda log: "0077" in log and "hello\n" in log)
    for line in ("captured: ", "exit: 7", "signal: 9", "missing: 254", "one word: 254", "short: 255"):
        assert f"{line}\n" in log, log
    assert re.search(r'pbs_tmrsh: host "x4407c0s\db0n0" is not a node in job <\d+\.aurora', log)
    assert f"/home/alice /bin:/usr/bin [] 0077 {job}" in log


def test_pbsdsh_runs_once_a_line_and_is_always_0(pbs: Cluster) -> None:
    script = "pbsdsh -- /bin/bash -c 'echo on $HOSTNAME; exit 3'; echo status $?\npbsdsh -n 1 /bin/echo only\n"
    job = pbs.submit(script, "-l", "select=2:mpiprocs=2", "-l", "place=scatter")
    pbs.ended(job)
    log = pbs.said(job, lambda log: log.count("on x4407c0s") == 4 and log.count("only\n") == 1)
    assert "status 0\n" in log
    assert len(re.findall(r"pbsdsh: task 0x\w+ exit status 3", log)) == 4
