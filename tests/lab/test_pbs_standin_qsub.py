"""The stand-in for PBS: submitting, dependencies, questions, a server that is away (test_pbs_standin.py has more)."""

from __future__ import annotations

import json
import re
import time

import pytest
from pbs_cluster import FOLDER, IS_REAL, SCALE, SERVER, Cluster, wait_for

# ── qsub: facts §7 ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("line", "code", "text"),
    [
        ("-x foo", 1, "qsub: invalid option -- 'x'\nqsub: directive error: -x foo \n"),
        (
            "--nodes=2",
            1,
            "qsub: invalid option -- '-'\nqsub: invalid option -- 'n'\nqsub: directive error: --nodes=2 \n",
        ),
        ("-l nodez=2", 187, "qsub: Unknown resource Resource_List.nodez\n"),
        ("-l select=1:foo=2", 187, "qsub: Unknown resource: foo\n"),
        ("-W foo=bar", 154, "qsub: Unknown resource: foo\n"),
        ("-l select=2 -l nodes=2", 6, "qsub: Cannot be used with select or place: nodes\n"),
        ("-l place=scatter", 7, 'qsub: Cannot have "place" without "select"\n'),
        ("-l walltime=1:00 # a minute", 1, "qsub: directive error: -l walltime=1:00 # a minute \n"),
        ("-l select=1 -l mem=1gb", 5, None),
        ("-q nosuch", 170, "qsub: Unknown queue\n"),
    ],
)
def test_directives_that_are_refused(pbs: Cluster, line: str, code: int, text: str | None) -> None:
    pbs.write("bad.sh", f"#!/bin/bash\n#PBS {line}\ntrue\n")
    said = pbs.alice("qsub bad.sh")
    assert said.code == code, said
    if text is not None and not (IS_REAL and "foo=bar" in line):  # the text is another's there, left over
        assert said.err == text


@pytest.mark.parametrize("options", ["-k d", "-j xx", "-N 'my job'", "-m x", "-W depend=foo:1", "-F args"])
def test_options_that_are_refused(pbs: Cluster, options: str) -> None:
    said = pbs.alice(f"echo true | qsub {options}")
    assert said.code == 2 and "usage: qsub [-a date_time]" in said.err


def test_a_script_that_is_no_file_or_comes_from_windows(pbs: Cluster) -> None:
    assert pbs.alice("qsub nosuch.sh").err == "qsub: script file:: No such file or directory\n"
    assert pbs.alice("qsub /tmp").err == "qsub: script not a file\n"
    said = pbs.alice("printf '#PBS -N x\\r\\ntrue\\r\\n' >crlf.sh; qsub crlf.sh")
    assert (said.code, said.err) == (1, "qsub: script contains cr, lf\n")


def test_which_directives_count(pbs: Cluster) -> None:
    script = """#!/bin/bash

# a comment
  #PBS -N indented
##PBS -p 1
# PBS -p 2
#SBATCH -p 3
#PBS -l walltime=0:01:00
#PBS -l walltime=0:02:00
#PBS -m n -m e
true
#PBS -p 4
"""
    job = pbs.job(pbs.submit(script, "-h"))
    assert (job["Job_Name"], job["Priority"], job["Mail_Points"]) == ("indented", 0, "e")
    assert job["Resource_List"]["walltime"] == "00:01:00"
    job = pbs.job(pbs.submit(script, "-h", "-N", "typed", "-l", "walltime=5"))
    assert (job["Job_Name"], job["Resource_List"]["walltime"]) == ("typed", "00:00:05")


def test_queues_take_and_refuse(pbs: Cluster) -> None:
    for options, code in (("-q small", 174), ("-q debug -l select=3", 188), ("-q debug -l walltime=2:00:00", 188)):
        assert pbs.alice(f"echo true | qsub {options}").code == code
    job = pbs.alice("echo true | qsub -q prod -l select=3 -l place=scatter").out.strip()
    assert pbs.job(job)["queue"] == "small"
    # A hold of its owner's keeps a job in the routing queue.
    job = pbs.alice("echo true | qsub -h -q prod -l select=3").out.strip()
    assert pbs.job(job)["queue"] == "prod"


def test_a_routing_queue_drops_a_job_without_a_word(pbs: Cluster) -> None:
    said = pbs.alice("echo true | qsub -q prod -l select=2")
    assert said.code == 0 and said.err == ""
    assert pbs.alice(f"qstat -x {said.out.strip()}").code == 153
    said = pbs.alice("qsub -q prod -l select=2 -- /bin/true")
    assert (said.code, said.err) == (191, "qsub: Job rejected by all possible destinations\n")


def test_a_variable_without_a_value_is_refused(pbs: Cluster) -> None:
    said = pbs.alice("echo true | qsub -v NOT_SET")
    assert (said.code, said.err) == (1, "qsub: cannot send environment with the job\n")


def test_a_job_may_submit_itself_from_a_compute_host(pbs: Cluster) -> None:
    job = pbs.submit('echo run; [[ -n $AGAIN ]] || qsub -v AGAIN=1 -h "$0"\n')
    pbs.ended(job)
    child = pbs.log(job).splitlines()[1]
    found = pbs.job(child)
    assert re.fullmatch(r"alice@x4407c0s\db0n0\.hsn\..*", found["Job_Owner"])
    assert pbs.alice(f"qdel {child}").code == 0


# ── dependencies: facts §7 ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("end", "any_", "ok", "notok"),
    [("exit 0", "runs", "runs", "dropped"), ("exit 3", "runs", "dropped", "runs"), ("qdel", "runs", "dropped", "runs")],
)
def test_what_children_do_when_their_parent_has_ended(pbs: Cluster, end: str, any_: str, ok: str, notok: str) -> None:
    parent = pbs.running(
        f"echo ready\nuntil [[ -e {FOLDER}/go ]]; do sleep 0.1; done\n{'' if end == 'qdel' else end}\n"
    )
    children = {
        kind: pbs.submit("true\n", "-W", f"depend={kind}:{parent}") for kind in ("afterany", "afterok", "afternotok")
    }
    waits = pbs.job(children["afterany"])
    assert (waits["job_state"], waits["substate"], waits["Hold_Types"]) == ("H", 22, "s")
    assert "beforeany:" in pbs.job(parent)["depend"]
    pbs.alice(f"qdel {parent}" if end == "qdel" else "touch go")
    for kind, fate in (("afterany", any_), ("afterok", ok), ("afternotok", notok)):
        ended = pbs.ended(children[kind])
        assert ("Exit_status" in ended) == (fate == "runs"), (kind, ended)
        assert ended["substate"] == 92


def test_qdel_of_a_parent_that_never_ran_leaves_its_child_held_and_qalter_rescues_it(pbs: Cluster) -> None:
    finished = pbs.submit("true\n")
    pbs.ended(finished)
    parent = pbs.submit("true\n", "-h")
    child = pbs.submit("true\n", "-W", f"depend=afterany:{parent}")
    pbs.alice(f"qdel {parent}")
    pbs.ended(parent)
    pbs.run("true\n")  # the scheduler has looked at all jobs since
    assert (pbs.job(child)["job_state"], pbs.job(child)["substate"]) == ("H", 22)
    assert pbs.alice(f"qrls {child}").code == 0
    assert pbs.alice(f"qalter -W depend='' {child}").code == 2
    assert pbs.job(child)["job_state"] == "H"
    assert pbs.alice(f"qalter -W depend=afterany:{finished} {child}").code == 0
    assert pbs.ended(child)["Exit_status"] == 0


def test_parents_that_have_ended_already_or_are_unknown(pbs: Cluster) -> None:
    finished = pbs.submit("true\n")
    pbs.ended(finished)
    assert pbs.run("true\n", "-W", f"depend=afterany:{finished}")["Exit_status"] == 0
    assert "Exit_status" not in pbs.run("true\n", "-W", f"depend=afternotok:{finished}")
    assert "Exit_status" not in pbs.run("true\n", "-W", "depend=afterany:9999")


def test_qdel_of_child_and_parent_in_one_call_starts_nothing(pbs: Cluster) -> None:
    parent = pbs.running("echo ready; sleep 600\n")
    child = pbs.submit("true\n", "-W", f"depend=afterany:{parent}")
    assert pbs.alice(f"qdel {child} {parent}").code == 0
    pbs.ended(parent)
    assert (pbs.job(child)["substate"], "Exit_status" in pbs.job(child)) == (91, False)


# ── questions ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_json_of_several_jobs_is_the_first_ones(pbs: Cluster) -> None:
    one, two = (pbs.submit("true\n", "-h") for _ in range(2))
    assert list(json.loads(pbs.alice(f"qstat -f -F json {one} {two}").out)["Jobs"]) == [one]
    assert len(json.loads(pbs.alice("qstat -xf -F json").out)["Jobs"]) > 1
    text = pbs.alice(f"qstat -f {one} {two}").out
    assert f"Job Id: {one}\n" in text and f"Job Id: {two}\n" in text
    assert pbs.alice(f"qstat -f -F dsv {one} {two}").out.count("|Job_Name=") == 2


def test_a_long_value_goes_on_after_a_line_end_and_a_tab(pbs: Cluster) -> None:
    job = pbs.submit("true\n", "-h")
    text = pbs.alice(f"qstat -f {job}").out
    assert max(len(line.expandtabs(8)) for line in text.splitlines()) == 79
    assert f"    Output_Path = aurora-pbs-0001.hostmgmt.cm.aurora.alcf.anl.gov:{FOLDER}/{job}.OU\n" not in text
    assert f"Output_Path = aurora-pbs-0001.hostmgmt.cm.aurora.alcf.anl.gov:{FOLDER}/" in text.replace("\n\t", "")


def test_qstat_of_jobs_that_have_ended_or_are_unknown(pbs: Cluster) -> None:
    job = pbs.submit("true\n")
    pbs.ended(job)
    said = pbs.alice(f"qstat {job}")
    assert said.code == 35
    assert said.err == f"qstat: {job} Job has finished, use -x or -H to obtain historical job information\n"
    said = pbs.alice("qstat -f -F json 9999")
    assert said.code == 153 and said.err.startswith("qstat: Unknown Job Id 9999.")
    assert "Jobs" not in json.loads(said.out)


def test_qselect_finds_by_name_and_state(pbs: Cluster) -> None:
    job = pbs.submit("true\n", "-h", "-N", "wanted")
    assert pbs.alice("qselect -N wanted -s QHRWET").out == f"{job}\n"
    assert pbs.alice("qselect -N wanted -s R").out == ""
    said = pbs.alice("qselect -N nosuch")
    assert (said.code, said.out) == (0, "")


# ── the server ────────────────────────────────────────────────────────────────────────────────────────────────────


def restart(pbs: Cluster) -> None:
    pbs.lab("ctl", "stop")
    pbs.lab("ctl", "start")
    wait_for(lambda: pbs.alice("qstat").code == 0, lambda: str(pbs.alice("qstat")))


def test_a_server_that_is_down_is_known_at_once(pbs: Cluster) -> None:
    pbs.lab("ctl", "stop")
    try:
        said = pbs.alice("qdel 1")
        assert said.code == 162
        assert said.err == f"Connection refused\nCouldn't connect to cluster: {SERVER}\n"
        said = pbs.alice("echo true | qsub")
        assert said.code == 162
        assert said.err == f"Connection refused\nqsub: cannot connect to server {SERVER} (errno=15010)\n"
        assert pbs.alice("qstat").code == 255
    finally:
        pbs.lab("ctl", "start")


def test_a_server_that_cannot_be_reached_blocks_for_about_a_minute(pbs: Cluster) -> None:
    pbs.lab("cut", "head")
    try:
        began = time.monotonic()
        said = pbs.alice("qstat", host=pbs.hosts[0], limit_s=400)
        took_s = time.monotonic() - began
    finally:
        pbs.lab("heal", "head")
    assert said.code == 255
    assert said.err.endswith(f"\nqstat: cannot connect to server {SERVER} (errno=15010)\n")
    # 39 s, 72 s and more than 120 s were seen: the network's own limits, by what it still knows of the way.
    assert took_s > 30 * SCALE


def test_a_job_outlives_the_server_and_its_end_is_told_later(pbs: Cluster) -> None:
    job = pbs.running(f"echo ready\nuntil [[ -e {FOLDER}/go ]]; do sleep 0.1; done\necho over\nexit 5\n")
    pbs.until(job, lambda now: now["substate"] == 42)
    pbs.lab("ctl", "stop")
    try:
        pbs.alice("touch go")
        pbs.said(job, lambda log: "over\n" in log)
    finally:
        pbs.lab("ctl", "start")
    ended = pbs.ended(job, 90)
    assert (ended["substate"], ended["Exit_status"]) == (93, 5)
    assert "comment" not in ended


def test_after_a_restart_of_the_server_nobody_is_named(pbs: Cluster) -> None:
    job = pbs.running("echo ready; sleep 600\n")
    pbs.until(job, lambda now: now["substate"] == 42)
    restart(pbs)
    pbs.alice(f"qdel {job}")
    ended = pbs.ended(job, 90)
    assert ended["substate"] == 91
    assert "terminated" not in ended.get("comment", "")


def test_a_restart_in_the_first_seconds_of_a_job_hides_who_deletes_it(pbs: Cluster) -> None:
    with pbs.holding_up("starts"):
        job = pbs.running("echo ready; sleep 600\n")
        assert pbs.job(job)["substate"] == 41
        restart(pbs)
    pbs.alice(f"qdel {job}")
    ended = pbs.ended(job, 90)
    assert (ended["substate"], ended["Exit_status"]) == (93, 271)
    assert ended["comment"].endswith("and failed")


def test_after_a_restart_nobody_knows_the_hosts_for_a_while(pbs: Cluster) -> None:
    job = pbs.running("echo ready; sleep 600\n", "-l", "select=4", "-l", "place=scatter")
    restart(pbs)
    listed = pbs.alice("pbsnodes -l").out
    # In a second or two all have said that they are there.
    assert listed == "" or re.fullmatch(r"(x4407c0s\db0n0 +state-unknown,down\S* *\n)+", listed)
    wait_for(lambda: not pbs.alice("pbsnodes -l").out, lambda: pbs.alice("pbsnodes -l").out)
    assert (pbs.job(job)["job_state"], pbs.job(job)["run_count"]) == ("R", 1)


def test_qrerun_is_for_managers_and_runs_the_job_again(pbs: Cluster) -> None:
    job = pbs.running("echo ready; sleep 600\n")
    assert pbs.root(f"qrerun {job}").code == 0
    again = pbs.until(job, lambda now: now["job_state"] == "R" and now["run_count"] == 2)
    assert again["substate"] in (41, 42)


def test_hold_and_release(pbs: Cluster) -> None:
    job = pbs.submit("true\n", "-h")
    assert (pbs.job(job)["job_state"], pbs.job(job)["substate"], pbs.job(job)["Hold_Types"]) == ("H", 20, "u")
    assert pbs.alice(f"qrls {job}").code == 0
    assert pbs.ended(job)["Exit_status"] == 0


def test_a_queue_that_was_disabled_takes_no_job_and_only_a_manager_disables_it(pbs: Cluster) -> None:
    order = "/opt/pbs/bin/qmgr -c 'set queue debug enabled = {}'"
    pbs.write("job.sh", "true\n")
    assert pbs.alice(order.format(False)).code != 0
    assert pbs.alice("qsub -h -q debug job.sh").code == 0
    try:
        assert pbs.root(order.format(False)).code == 0
        said = pbs.alice("qsub -q debug job.sh")
        assert (said.code, said.err) == (173, "qsub: Queue is not enabled\n")
    finally:
        pbs.root(order.format(True))


def test_a_hold_beside_that_of_a_dependency_outlives_it(pbs: Cluster) -> None:
    parent = pbs.running("echo ready; while [[ ! -e $PBS_O_WORKDIR/enough ]]; do sleep 0.1; done\n")
    child = pbs.submit("true\n", "-W", f"depend=afterany:{parent}")

    def now() -> tuple[str, int, str]:
        job = pbs.job(child)
        return job["job_state"], job["substate"], job["Hold_Types"]

    pbs.alice(f"qhold {child}")
    assert now() == ("H", 22, "su")
    pbs.alice(f"qrls {child}")
    assert now() == ("H", 22, "s")
    pbs.alice(f"qhold {child}")
    pbs.write("enough", "")
    pbs.ended(parent)
    pbs.until(child, lambda job: "depend" not in job)
    assert now() == ("H", 22, "u")
    pbs.alice(f"qrls {child}")
    assert pbs.ended(child)["Exit_status"] == 0
