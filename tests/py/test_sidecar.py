"""The sidecar with several hosts, each a folder and an agent of its own."""

import os
import subprocess
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sidecar_cluster import Cluster, wait_for

from outlast.checkpoint import manifest
from outlast.sidecar import coordinator, settings
from outlast.sidecar.transfer import Transfer


@pytest.fixture
def one(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path)
    yield cluster
    cluster.stop()


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path, hosts=3)
    yield cluster
    cluster.stop()


def test_a_whole_checkpoint_becomes_durable_while_training_goes_on(one: Cluster) -> None:
    one.start()
    content = one.save(20, size=20_000_000)
    one.wait_durable(20)
    one.assert_holds(20, content)
    wait_for(lambda: one.events("checkpoint_durable"), "the event")
    assert one.events("checkpoint_local") == [["step:=20"]]
    assert one.events("checkpoint_durable")[0][:2] == ["step:=20", f"bytes:={sum(map(len, content.values()))}"]
    assert (one.state / "durable_step").read_text() == "20\n"
    assert (one.state / "local_step").read_text().startswith("20 ")


def test_a_manifest_tells_what_made_its_checkpoint(three: Cluster) -> None:
    (three.state / "sources").write_text(f"{'c' * 40} 2\n")
    (three.state / "versions").write_text('python=3.11.7 torch=2.7.1+cu126 x="} \n')
    three.start()
    three.save_sharded(20)
    three.wait_durable(20)
    told = manifest.read(three.run / "checkpoints/step-20")
    assert (told.format, told.world_size, told.loss, told.hosts) == ("dcp", 3, None, ("h0", "h1", "h2"))
    assert told.ranks == 3
    assert (told.run, told.job, told.attempt, told.parent) == ("demo", "7", 1, "step-10")
    versions = {"outlast": "1.0", "python": "3.11.7", "torch": "2.7.1+cu126"}
    assert (told.commit, told.dirty, dict(told.versions)) == ("c" * 40, True, versions)


def test_what_is_being_written_is_not_copied(one: Cluster) -> None:
    one.start()
    one.save(20)
    one.wait_durable(20)
    (one.folder("h0") / "step-40").mkdir()
    (one.folder("h0") / "step-40/model.bin").write_bytes(b"half")
    one.end(1)
    one.drain()
    assert one.durable_steps() == [20]
    assert one.events("checkpoint_torn") == [["step:=40", "why=last.json (the job's checkpoint.complete) is missing"]]


def test_a_checkpoint_that_is_one_file_lies_in_a_folder_of_its_name(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, CKPT_COMPLETE="")
    try:
        cluster.start()
        with zipfile.ZipFile(cluster.folder("h0") / "step-20.ckpt", "w") as archive:
            archive.writestr("archive/data.pkl", b"N.")
        wait_for((cluster.run / "checkpoints/step-20.ckpt/MANIFEST.json").exists, "the manifest")
        assert zipfile.is_zipfile(cluster.run / "checkpoints/step-20.ckpt/step-20.ckpt")
    finally:
        cluster.stop()


def test_the_parts_of_all_hosts_come_together(three: Cluster) -> None:
    three.start()
    content = three.save_sharded(20, size=3_000_000)
    three.wait_durable(20)
    three.assert_holds(20, content)


def test_a_checkpoint_that_lacks_a_part_is_torn_and_its_node_is_named(three: Cluster) -> None:
    three.start()
    content = three.save_sharded(20)
    three.wait_durable(20)
    three.save_sharded(40, torn="h2")
    three.end(1)
    three.drain()
    assert three.durable_steps() == [20]
    three.assert_holds(20, content)
    assert three.events("checkpoint_torn") == [
        ["step:=40", "why=__2_0.distcp (rank 2 on h2) is missing; __2_1.distcp (rank 2 on h2) is missing"]
    ]


def test_parts_without_an_index_are_never_taken_for_whole(three: Cluster) -> None:
    three.start()
    three.save_sharded(20, index=False)
    three.end(1)
    three.drain()
    assert three.durable_steps() == []


def test_a_node_that_is_lost_before_its_part_was_copied_tears_the_checkpoint_and_the_one_before_stays(
    three: Cluster,
) -> None:
    three.start()
    three.save_sharded(20)
    three.wait_durable(20)
    three.kill("h1")
    three.save_sharded(40)
    three.end(1)
    three.drain()
    assert three.durable_steps() == [20]
    assert "h1" in three.events("checkpoint_torn")[0][1]


def test_a_node_that_is_lost_after_its_part_was_copied_costs_nothing(three: Cluster) -> None:
    three.settings["CKPT_WRITERS"] = 1
    three.settings["CKPT_MIB_PER_S"] = 8
    three.start()
    content = three.save_sharded(20, size=4_000_000)
    copied = three.state / "sidecar.copied"
    wait_for(lambda: copied.exists() and copied.read_text().count('"h1"') == 2, "the part of h1")
    three.kill("h1")
    three.kill("h0")
    three.start_coordinator()
    three.wait_durable(20)
    three.assert_holds(20, content)


def test_an_agent_that_is_killed_goes_on_where_it_was(three: Cluster) -> None:
    three.settings["CKPT_MIB_PER_S"] = 24
    three.start()
    content = three.save_sharded(20, size=20_000_000)
    part = three.run / "checkpoints/.incoming-step-20.000001.1/__1_0.distcp"
    wait_for(lambda: part.exists() and part.stat().st_size > 0, "a part of it")
    three.kill("h1")
    three.start_agent("h1")
    three.wait_durable(20)
    three.assert_holds(20, content)


def test_what_the_trainer_prunes_during_the_copy_is_copied_all_the_same(one: Cluster) -> None:
    one.settings["CKPT_MIB_PER_S"] = 20
    one.start()
    content = one.save(20, size=40_000_000)
    aside = one.root / "h0/aside/step-20.1"
    wait_for(lambda: all((aside / path).exists() for path in content), "the links")
    for path in content:
        (one.folder("h0") / "step-20" / path).unlink()
    one.wait_durable(20)
    one.assert_holds(20, content)


def test_the_newest_goes_first_when_nobody_writes_any_more(one: Cluster) -> None:
    one.settings["CKPT_MIB_PER_S"] = 1  # the first would take a minute
    one.start()
    one.save(20, size=60_000_000)
    incoming = one.run / "checkpoints/.incoming-step-20.000001.1"
    wait_for(incoming.exists, "the copy of the first")
    one.save(40, size=1000)
    one.end()
    one.drain()
    assert one.durable_steps() == [40]
    assert one.events("checkpoint_durable")[0][0] == "step:=40"


def test_one_that_keeps_failing_makes_way_for_the_next(one: Cluster) -> None:
    (one.run / "checkpoints/.incoming-step-20.000001.1").write_text("no folder")
    one.start()
    one.save(20)
    wait_for(lambda: one.events("warned"), "a word of it")
    content = one.save(30)
    one.wait_durable(30)
    one.assert_holds(30, content)


def test_a_newest_that_keeps_failing_costs_no_older_one(one: Cluster) -> None:
    (one.run / "checkpoints/.incoming-step-30.000001.1").write_text("no folder")
    content = one.save(20)
    one.save(30)
    one.end()
    one.start()
    one.wait_durable(20)
    one.assert_holds(20, content)


@pytest.mark.parametrize("over", [False, True])
def test_where_all_keep_failing_each_has_its_turn(three: Cluster, over: bool) -> None:
    environ = {**three.env(), "OUTLAST_AGENT_TOKEN": "secret"}
    found = coordinator.Coordinator(settings.from_env(environ), "secret")
    found._is_stuck = lambda transfer: False  # type: ignore[method-assign]
    assert found._choose(over) is None
    for step in (20, 30):
        files = found.crew.tables.join({"h0": found.crew.tables.listing([("a", 1, 1)])})
        transfer = Transfer(f"step-{step}", step, f"step-{step}.1", ".incoming", files, 0.0, failed=2)
        found.transfers[transfer.name] = transfer
    turns = []
    for _ in range(4):
        found.current = found._choose(over)
        assert found.current is not None
        found.current.failed += 1
        turns.append(found.current.step)
    assert turns == [30, 20, 30, 20]


def test_a_job_that_lost_the_run_publishes_nothing(one: Cluster) -> None:
    one.start()
    one.save(20)
    one.wait_durable(20)
    (one.run / "lease/000002").write_text("job=8")
    one.save(40)
    wait_for((one.state / "lost").exists, "the loss")
    one.end()
    one.drain()
    assert one.durable_steps() == [20]


def test_only_the_newest_stay(one: Cluster) -> None:
    one.settings["CKPT_KEEP"] = 2
    one.start()
    for step in (20, 40, 60, 80):
        one.save(step)
        one.wait_durable(step)
    wait_for(lambda: one.durable_steps() == [60, 80], "the two newest")
    wait_for(lambda: not list((one.root / "h0").glob("aside/*")), "an empty folder aside")
    # There is room, and the trainer may want them.
    assert len(list(one.folder("h0").iterdir())) == 4


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a file system of a few MB")
def test_on_a_node_without_room_only_the_two_newest_stay(one: Cluster) -> None:
    one.start()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=9m", "tmpfs", one.folder("h0")], check=True)
    try:
        for step in (20, 40, 60):
            one.save(step, size=2_000_000)
            one.wait_durable(step)
        wait_for(lambda: {path.name for path in one.folder("h0").iterdir()} == {"step-40", "step-60"}, "room")
    finally:
        one.stop()
        subprocess.run(["umount", "-l", one.folder("h0")], check=True)


def test_in_a_nodes_memory_no_durable_one_stays_that_would_cost_training_its_room(one: Cluster) -> None:
    one.settings["CKPT_MEMORY_GIB"] = 9 / 1024
    one.start()
    for step in (20, 40, 60):
        one.save(step, size=4_000_000)
        one.wait_durable(step)
    wait_for(lambda: not list(one.folder("h0").iterdir()), "room for two more")
    assert one.durable_steps() == [20, 40, 60]
    assert not one.events("warned")
    one.save(80, size=6_000_000)
    one.wait_durable(80)
    wait_for(lambda: one.events("warned"), "a word on what does not fit")
    assert "memory_gib" in " ".join(one.events("warned")[0])


def test_the_next_launch_writes_the_same_step_anew(one: Cluster) -> None:
    one.settings["CKPT_MIB_PER_S"] = 4
    one.start()
    one.save(20, size=40_000_000)
    wait_for((one.run / "checkpoints/.incoming-step-20.000001.1/model.bin").exists, "the copy")
    one.end(1)
    (one.folder("h0") / "step-20").rename(one.folder("h0") / ".unused")
    one.launch(2)
    content = one.save(20, size=4_000_000, seed=1)
    one.wait_durable(20)
    one.assert_holds(20, content)


def test_what_lies_on_a_node_that_trains_no_more_is_nobodys_part(three: Cluster) -> None:
    three.start()
    three.save_sharded(20, torn="h2")
    three.end(1)
    three.drain()
    (three.folder("h0") / "step-20").rename(three.folder("h0") / ".unused")
    three.hosts = ["h0", "h2"]  # h1 had rank 1, and still has its part
    three.launch(2)
    three.save_sharded(20, torn="h2")
    three.end(1)
    three.drain()
    assert three.durable_steps() == []
    assert "(rank 1 on h2) is missing" in three.events("checkpoint_torn")[-1][1]


def test_a_node_is_told_to_be_silent_until_it_is_given_up(three: Cluster) -> None:
    environ = {**three.env(), "OUTLAST_AGENT_TOKEN": "secret"}
    found = coordinator.Coordinator(settings.from_env(environ), "secret")
    now = time.time()
    found.crew.left_s |= {"h1": now - 50, "h2": now - 1}
    found._tell_silent()
    assert (three.state / "silent").read_text() == "h1\n"
    (three.state / "gone").write_text("h1.example.org\n")
    found._tell_silent()
    assert (three.state / "silent").read_text() == ""


def test_a_drain_with_nothing_to_do_is_over_at_once(one: Cluster) -> None:
    one.start()
    wait_for((one.root / "h0/agent.newest").exists, "the agent")
    one.end()
    one.drain(12)  # it waits for nobody, neither for 15 s nor for a minute


def test_one_whose_parent_died_before_it_was_awake_does_nothing(one: Cluster) -> None:
    one.settings["SIDECAR_PID"] = 1  # not the one that it finds
    one.start()
    wait_for(lambda: one.processes["h0"].poll() is not None, "its end")
    assert not (one.state / "sidecar_beat").exists()


def test_of_two_agents_of_a_host_the_older_one_ends(three: Cluster) -> None:
    three.start()
    wait_for((three.root / "h1/agent.newest").exists, "the first")
    older = three.processes.pop("h1")
    three.start_agent("h1")
    wait_for(lambda: older.poll() is not None, "its end")
    content = three.save_sharded(20)
    three.wait_durable(20)
    three.assert_holds(20, content)


def test_it_ends_with_its_job(three: Cluster) -> None:
    three.start()
    three.save_sharded(20)
    three.wait_durable(20)
    three.state.rename(three.root / "gone")
    wait_for(lambda: three.processes["h0"].poll() is not None, "the coordinator's end")
    (three.root / "h1").rename(three.root / "h1.gone")
    wait_for(lambda: three.processes["h1"].poll() is not None, "the agent's end")
