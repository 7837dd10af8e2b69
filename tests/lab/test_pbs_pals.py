"""The launcher of the PBS lab does what users of PALS have seen it do."""

from __future__ import annotations

import re
import time

from pbs_cluster import SCALE, Cluster, wait_for

HSN = "hsn.cm.aurora.alcf.anl.gov"


def launch(pbs: Cluster, words: str) -> str:
    """What a job on two hosts prints, its last line the launcher's status."""
    job = pbs.submit(f"mpiexec {words}\necho status $?\n", "-l", "select=2", "-l", "place=scatter")
    pbs.ended(job, 60)
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
    job = pbs.submit(script, "-l", "select=2", "-l", "place=scatter")
    pbs.ended(job)
    full, there = pbs.log(job).split()
    assert full == f"{there}.{HSN}"


def test_a_rank_that_fails_is_named_and_takes_the_others_along(pbs: Cluster) -> None:
    log = launch(pbs, "-n 4 --ppn 2 bash -c '((PMI_RANK != 3)) || exit 5; sleep 60'")
    assert re.search(rf"^x4407c0s\db0n0\.{HSN}: rank 3 exited with code 5$", log, re.MULTILINE)
    assert len(re.findall(r": rank [012] died from signal 15$", log, re.MULTILINE)) == 3
    assert log.endswith("status 143\n")


def test_a_rank_that_is_killed_is_named(pbs: Cluster) -> None:
    log = launch(pbs, "-n 2 --ppn 1 bash -c '((PMI_RANK != 1)) || kill -9 $$; sleep 60'")
    assert re.search(rf"x4407c0s\db0n0\.{HSN}: rank 1 died from signal 9\n", log)


def test_half_a_line_of_a_rank_is_seen_at_once(pbs: Cluster) -> None:
    pbs.write("go", "").unlink()
    job = pbs.submit(
        "cd $PBS_O_WORKDIR\nmpiexec -n 1 -l bash -c 'printf half; until [[ -e go ]]; do sleep 0.1; done; echo .'\n"
    )
    wait_for(lambda: pbs.log(job).endswith(" 0: half"), 30, lambda: pbs.log(job))
    pbs.write("go", "")
    pbs.ended(job)
    assert pbs.log(job).endswith(" 0: half.\n")


def test_a_program_that_is_missing_is_127(pbs: Cluster) -> None:
    assert launch(pbs, "-n 2 --ppn 1 /no/such").endswith("status 127\n")


def test_term_is_passed_on_to_all_ranks(pbs: Cluster) -> None:
    trap = 'trap "echo got TERM; exit 0" TERM; for ((i = 0; i < 600; i++)); do sleep 0.1; done'
    job = pbs.submit(
        f"mpiexec -n 2 --ppn 1 bash -c '{trap}' &\nsleep 2; kill $!; wait $!; echo status $?\n",
        *("-l", "select=2", "-l", "place=scatter"),
    )
    pbs.ended(job, 60)
    assert pbs.log(job) == "got TERM\ngot TERM\nstatus 0\n"


def test_ranks_die_with_their_mpiexec(pbs: Cluster) -> None:
    job = pbs.submit(
        "mpiexec -n 2 --ppn 1 sleep 1234 &\nsleep 2; kill -9 $!; sleep 1\n", "-l", "select=2", "-l", "place=scatter"
    )
    ended = pbs.ended(job)
    for word in ended["exec_host"].split("+"):
        assert pbs.root("pgrep -f 'sleep 1234' | grep -v $$", host=word.partition("/")[0]).out == ""


def test_a_host_that_dies_is_missed_after_the_rpc_timeout(pbs: Cluster) -> None:
    job = pbs.running(
        "mpiexec -n 2 --ppn 1 bash -c 'echo ready; sleep 600'; echo status $?\n",
        "-l",
        "select=2",
        "-l",
        "place=scatter",
    )
    second = pbs.job(job)["exec_host"].split("+")[1].partition("/")[0]
    began = time.monotonic()
    pbs.lab("off", second)
    wait_for(lambda: "status " in pbs.log(job), 240 * SCALE + 20, lambda: pbs.log(job))
    assert f"ping RPC timeout from {second}.hostmgmt2407.cm.aurora.alcf.anl.gov after 120s\n" in pbs.log(job)
    assert "status 143" in pbs.log(job)
    assert time.monotonic() - began > 100 * SCALE


def test_a_host_that_is_dead_already_fails_the_launch_and_is_the_child_in_the_text(pbs: Cluster) -> None:
    job = pbs.running(
        "echo ready; sleep 4; mpiexec -n 2 --ppn 1 true; echo status $?\n", "-l", "select=2", "-l", "place=scatter"
    )
    second = pbs.job(job)["exec_host"].split("+")[1].partition("/")[0]
    pbs.lab("off", second)
    wait_for(lambda: "status " in pbs.log(job), 240 * SCALE + 30, lambda: pbs.log(job))
    assert re.search(
        rf"launch failed on x4407\S+: Couldn't forward RPC launch\(\S+\) to child {second}\.hostmgmt2407", pbs.log(job)
    )
    assert "status 0" not in pbs.log(job)
