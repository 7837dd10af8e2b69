"""The launcher of the PBS lab does what users of PALS have seen it do."""

from __future__ import annotations

import re

from pbs_cluster import FOLDER, LIMIT_S, SCALE, TWO, Cluster, wait_for

HSN = "hsn.cm.aurora.alcf.anl.gov"
# What a rank of two types when it is ready, and what waits in the job's script for both.
HERE = f"touch {FOLDER}/$PBS_JOBID.$PMI_RANK"
BOTH = f"until [[ -e {FOLDER}/$PBS_JOBID.0 && -e {FOLDER}/$PBS_JOBID.1 ]]; do sleep 0.1; done"


def launch(pbs: Cluster, words: str) -> str:
    """What a job on two hosts prints, its last line the launcher's status."""
    job = pbs.submit(f"mpiexec {words}\necho status $?\n", *TWO)
    pbs.ended(job)
    return pbs.log(job)


def test_ranks_are_dealt_in_blocks_and_know_their_place(pbs: Cluster) -> None:
    said = "echo $PALS_RANKID $PALS_LOCAL_RANKID $PMI_RANK $PMI_SIZE $PALS_NODEID $PMIX_RANK $MINE $(uname -n)"
    log = launch(pbs, f"-n 4 --ppn 2 --cpu-bind=list:4-7:8-11 --pmi=pmix --envall --genv MINE=1 bash -c '{said}'")
    *ranks, status = sorted(log.splitlines())
    places = [line.rpartition(" ")[0] for line in ranks]
    assert places == ["0 0 0 4 0 0 1", "1 1 1 4 0 1 1", "2 0 2 4 1 2 1", "3 1 3 4 1 3 1"]
    hosts = [line.rpartition(" ")[2] for line in ranks]
    assert hosts[0] == hosts[1] != hosts[2] == hosts[3]
    assert status == "status 0"


def test_exported_variables_reach_the_ranks_and_one_dash_will_do(pbs: Cluster) -> None:
    job = pbs.submit("export FOO=bar\nmpiexec -np 1 -ppn 1 -l bash -c 'echo $FOO'\n")
    pbs.ended(job)
    assert re.fullmatch(rf"x4407c0s\db0n0\.{HSN} 0: bar\n", pbs.log(job))


def test_a_hostfile_may_name_some_of_the_hosts(pbs: Cluster) -> None:
    script = "sed -n 2p $PBS_NODEFILE | tee $TMPDIR/some\nmpiexec -n 1 --ppn 1 --hostfile $TMPDIR/some uname -n\n"
    job = pbs.submit(script, *TWO)
    pbs.ended(job)
    full, there = pbs.log(job).split()
    assert full == f"{there}.{HSN}"


def test_a_rank_that_fails_is_named_and_takes_the_others_along(pbs: Cluster) -> None:
    log = launch(pbs, "-n 4 --ppn 2 bash -c '((PMI_RANK != 3)) || exit 5; sleep 600'")
    assert re.search(rf"^x4407c0s\db0n0\.{HSN}: rank 3 exited with code 5$", log, re.MULTILINE)
    assert len(re.findall(r": rank [012] died from signal 15$", log, re.MULTILINE)) == 3
    assert log.endswith("status 143\n")


def test_a_rank_that_is_killed_is_named(pbs: Cluster) -> None:
    log = launch(pbs, "-n 2 --ppn 1 bash -c '((PMI_RANK != 1)) || kill -9 $$; sleep 600'")
    assert re.search(rf"x4407c0s\db0n0\.{HSN}: rank 1 died from signal 9\n", log)


def test_half_a_line_of_a_rank_is_seen_at_once(pbs: Cluster) -> None:
    job = pbs.submit(
        "cd $PBS_O_WORKDIR\nmpiexec -n 1 -l bash -c 'printf half; until [[ -e go ]]; do sleep 0.1; done; echo .'\n"
    )
    pbs.said(job, lambda log: log.endswith(" 0: half"))
    pbs.write("go", "")
    pbs.ended(job)
    assert pbs.log(job).endswith(" 0: half.\n")


def test_a_program_that_is_missing_is_127(pbs: Cluster) -> None:
    assert launch(pbs, "-n 2 --ppn 1 /no/such").endswith("status 127\n")


def test_term_is_passed_on_to_all_ranks(pbs: Cluster) -> None:
    trap = f'trap "echo got TERM; exit 0" TERM; {HERE}; for ((i = 0; i < 6000; i++)); do sleep 0.1; done'
    job = pbs.submit(f"mpiexec -n 2 --ppn 1 bash -c '{trap}' &\n{BOTH}\nkill $!; wait $!; echo status $?\n", *TWO)
    pbs.ended(job)
    assert pbs.log(job) == "got TERM\ngot TERM\nstatus 0\n"


def test_ranks_die_with_their_mpiexec(pbs: Cluster) -> None:
    rank = f"{HERE}; exec sleep 1234"
    job = pbs.running(f"mpiexec -n 2 --ppn 1 bash -c '{rank}' &\n{BOTH}\nkill -9 $!; echo ready; sleep 600\n", *TWO)
    hosts = [word.partition("/")[0] for word in pbs.job(job)["exec_host"].split("+")]
    wait_for(lambda: not any(pbs.root("pgrep -f 'sleep 123[4]'", host=host).out for host in hosts), lambda: str(hosts))
    assert pbs.job(job)["job_state"] == "R"


def test_a_host_that_dies_is_missed_after_the_rpc_timeout(pbs: Cluster) -> None:
    job = pbs.submit("mpiexec -n 2 --ppn 1 bash -c 'echo here; sleep 600'; echo status $?\n", *TWO)
    pbs.said(job, lambda log: log.count("here") == 2)
    second = pbs.job(job)["exec_host"].split("+")[1].partition("/")[0]
    pbs.off(second)
    pbs.said(job, lambda log: "status " in log, 240 * SCALE + LIMIT_S)
    assert f"ping RPC timeout from {second}.hostmgmt2407.cm.aurora.alcf.anl.gov after 120s\n" in pbs.log(job)
    assert "status 143" in pbs.log(job)


def test_a_host_that_is_dead_already_fails_the_launch_and_is_the_child_in_the_text(pbs: Cluster) -> None:
    script = "cd $PBS_O_WORKDIR\necho ready; until [[ -e off ]]; do sleep 0.1; done"
    job = pbs.running(f"{script}; mpiexec -n 2 --ppn 1 true; echo status $?\n", *TWO)
    second = pbs.job(job)["exec_host"].split("+")[1].partition("/")[0]
    pbs.off(second)
    pbs.write("off", "")
    log = pbs.said(job, lambda log: "status " in log, 240 * SCALE + LIMIT_S)
    assert re.search(
        rf"launch failed on x4407\S+: Couldn't forward RPC launch\(\S+\) to child {second}\.hostmgmt2407", log
    )
    assert "status 0" not in log
