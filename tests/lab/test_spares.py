"""A host is lost, and a spare of the same job has its place."""

from __future__ import annotations

import pytest
from harness import Lab
from test_sharded import durable, render


@pytest.mark.hosts(6)
def test_a_spare_goes_on_in_the_place_of_a_dead_host_and_a_successor_when_there_is_none_left(lab: Lab) -> None:
    lab.miss_hosts_for(300)
    render(lab, "spares=1", nodes=3, steps=5000)
    job = lab.submit()
    first = lab.hosts(lab.wait_event("launched", job=job))
    lab.wait_step("checkpoint_durable", 40)
    lab.command("off", first[1])
    again = lab.wait_event("launched", lab.detected_s + 60, job=job, attempt=2)
    (swap,) = lab.events("swapped", job=job)
    spare = swap["in"].partition(".")[0]
    assert (swap["slot"], lab.hosts(again)) == (1, [first[0], spare, first[2]])
    assert again["step"] >= 40
    # The survivors have what they resume from, the spare gets it.
    staged = lab.wait_event("staged", job=job, attempt=2)
    assert staged["kept"] > 0
    lab.wait_event("checkpoint_durable", attempt=2)
    ended = lab.wait_event("ended", job=job, attempt=1)
    assert (ended["class"], ended["then"]) == ("node", "relaunch")
    lab.command("off", first[2])
    ended = lab.wait_event("ended", lab.detected_s + 60, job=job, attempt=2)
    assert (ended["class"], ended["then"]) == ("node", "submit")
    assert "2 of 4 nodes are left" in ended["because"]
    successor = lab.successor(job)
    lab.miss_hosts_for(10)  # the successor waits for the end of the job, and that for the dead host
    later = lab.wait_event("launched", 120, job=successor)
    assert not {first[1], first[2]} & set(lab.hosts(later))
    assert later["step"] >= durable(lab)[0]
    lab.assert_resumed()
    lab.outlast("cancel", lab.run_path)
    lab.wait_until_empty()


@pytest.mark.extra
def test_a_failure_that_stays_in_its_place_on_another_host_is_the_programs_and_held(lab: Lab) -> None:
    lab.faults({"kind": "exit", "rank": 2, "after": 15, "code": 3})
    lab.render("--set", "spares=1", "--set", "preflight.enabled=true", "--set", "guard.stuck_jobs=9")
    job = lab.submit()
    held = lab.wait_event("held", 150)
    lab.wait_until_empty()
    assert [(end["rung"], end["then"]) for end in lab.events("ended")] == [
        ("again", "relaunch"),
        ("move", "relaunch"),
        ("software", "hold"),
    ]
    first, again, moved = map(lab.hosts, lab.events("launched"))
    (swap,) = lab.events("swapped")
    assert first == again
    assert (swap["slot"], swap["how"], swap["out"].partition(".")[0]) == (1, "move", first[1])
    assert moved[0] == first[0] and moved[1] not in first
    assert "place 1 fails on" in held["why"] and held["job"] == job
    # Before each launch all nodes were asked, and nobody is blamed.
    assert [look.get("quick", 0) for look in lab.events("preflight")] == [0, 1, 1]
    assert lab.events("excluded") == []
    assert not (lab.folder.parent / "bad_nodes.txt").exists()
