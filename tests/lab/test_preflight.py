"""Before a launch every node is asked whether it is well."""

from __future__ import annotations

import pytest
from harness import Lab

ASKED = ("--set", "preflight.enabled=true")


def lose_a_gpu(lab: Lab, host: str) -> None:
    """A device that has fallen off the bus of this host."""
    gone = {"slurm": "class/kfd/kfd/topology/nodes/11", "pbs": "class/drm/card6"}[lab.scheduler]
    lab.root(host, "rm", "-r", f"/opt/node/sys/{gone}")


def hang_a_check(lab: Lab, host: str) -> None:
    """A file of the driver's that is never read to its end."""
    file = "/opt/node/sys/class/net/hsn2/operstate"
    lab.root(host, "rm", file)
    lab.root(host, "mkfifo", "-m", "644", file)


@pytest.mark.seldom
@pytest.mark.hosts(6)
def test_sick_hosts_are_left_out_before_the_first_launch(lab: Lab) -> None:
    hosts = [name for name in lab.command("hosts").split() if name != "head"]
    sick, slow = hosts[1:3]
    lose_a_gpu(lab, sick)
    hang_a_check(lab, slow)
    lab.render(*ASKED, "--set", "nodes=4", "--set", "spares=2", "--set", "progress.target_step=60")
    job = lab.submit()
    asked = lab.wait_event("preflight", 90, job=job)
    assert (asked["nodes"], asked["site"]) == (6, "")
    blamed = {tuple(pair.split(":")) for pair in asked["blamed"].split()}
    assert {(host.partition(".")[0], check) for host, check in blamed} == {(sick, "gpu_count"), (slow, "interface")}
    # The check that hangs has 8 s, all together have 30, on a machine that has time for them.
    assert asked["seconds"] <= 60
    launched = lab.wait_event("launched", 60, job=job)
    assert sorted(lab.hosts(launched)) == sorted({*hosts} - {sick, slow})
    left_out = {e["nodes"].partition(".")[0]: e["why"] for e in lab.events("excluded")}
    assert left_out == {sick: "health_check_gpu_count", slow: "health_check_interface"}
    lab.finish()
    assert lab.endings() == ["done"]

    if lab.scheduler == "pbs":
        return  # it cannot keep a job off a node: the next one may get the same
    # Without spares too few are left, and the next job runs on others.
    lab.run = "again"
    lab.render(*ASKED, "--set", "nodes=4", "--set", "run=again", "--set", "progress.target_step=40")
    job = lab.submit()
    successor = lab.successor(job, 90)
    assert lab.endings(job) == ["unhealthy"]
    launched = lab.wait_event("launched", 120, job=successor)
    assert sorted(lab.hosts(launched)) == sorted({*hosts} - {sick, slow})
    lab.finish()
