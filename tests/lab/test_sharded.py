"""Checkpoints in parts, each on the disk of its own node, and a launch from one step on all of them."""

from __future__ import annotations

import pytest
from harness import CHECKOUT, HERE, Lab, waits


def render(lab: Lab, *options: str, steps: int = 100, every: int = 20, nodes: int = 4, size: int = 200_000) -> None:
    """A job with one rank on each of its nodes."""
    text = (
        (HERE / "sharded.py")
        .read_text()
        .replace("import numpy", f"sys.path.insert(0, {str(CHECKOUT / 'pyhelpers')!r})\n\nimport numpy", 1)
    )
    lab.write("sharded.py", text)
    command = f"python3 -u sharded.py {{ckpt_dir}} --steps {steps} --every {every} --size {size}"
    # Where nodes have no disk they write to memory.
    where = ["checkpoint.storage=local", *([] if lab.saves_on_nodes else ["checkpoint.memory_gib=1"])]
    words = [*where, "preset=torchtitan", f"command={command}", f"nodes={nodes}", "ranks_per_node=1"]
    words += [f"progress.target_step={steps}", "deadline.startup_s=30", *options]
    lab.render(*(word for text in words for word in ("--set", text)))


def durable(lab: Lab) -> list[int]:
    """The steps that are durable, in order."""
    found = (lab.folder / "checkpoints").glob("step-*/MANIFEST.json")
    return sorted(int(path.parent.name.removeprefix("step-")) for path in found)


@pytest.mark.seldom
@pytest.mark.hosts(3)
def test_survivors_of_a_crash_go_on_from_what_they_have(lab: Lab) -> None:
    lab.faults(waits(50))
    render(lab, nodes=3)
    job = lab.submit()
    lab.wait_step("checkpoint_durable", 40)
    lab.root(lab.host_of(job, 1), "pkill", "-KILL", "-f", "^[^ ]*python[0-9.]* -u sharded.py")
    lab.faults()
    staged = lab.wait_event("staged", job=job, attempt=2)
    assert (staged["kept"], staged["copied"], staged["linked"]) == (4, 0, 8)
    lab.finish()
    assert lab.endings() == ["crash", "done"]
    lab.assert_resumed()
    assert durable(lab)[-1] == 100


@pytest.mark.seldom
@pytest.mark.hosts(3)
def test_a_damaged_one_is_put_away_and_all_go_on_from_the_one_before(lab: Lab) -> None:
    words = ("checkpoint.stage_in=own-shards", "mail.to=alice", "chain=false")
    render(lab, *words, nodes=3)
    # One after another: a sidecar that is behind leaves checkpoints out.
    lab.faults(waits(30))
    first = lab.submit()
    lab.wait_event("checkpoint_durable", step=20)
    lab.faults(waits(50))
    lab.wait_event("checkpoint_durable", step=40)
    lab.end_in(first, 60)  # all of it is margin
    newest = lab.wait_event("ended", 90)["durable_step"]
    assert newest == 40
    lab.wait_until_empty()
    lab.faults()
    part = lab.folder / f"checkpoints/step-{newest}/__1_0.distcp"
    text = part.read_bytes()
    part.write_bytes(text[:-1] + bytes([text[-1] ^ 1]))
    job = lab.submit()
    staged = lab.wait_event("staged", job=job)
    # The first try may have left the metadata, which is the same in both.
    assert (staged["step"], staged["kept"] + staged["copied"], staged["linked"]) == (newest - 20, 6, 6)
    (quarantined,) = lab.events("quarantined")
    assert (quarantined["step"], quarantined["durable_step"]) == (newest, newest - 20)
    assert "__1_0.distcp has another hash" in (lab.folder / "quarantine/why.txt").read_text()
    lab.finish()
    assert lab.endings() == ["walltime", "done"]
    assert durable(lab)[-1] == 100
    assert any(f"checkpoint {newest} is damaged" in mail for mail in lab.mails())


# So slow that a checkpoint of this size is under way for some seconds.
SLOW = ("checkpoint.bandwidth_mib_s=1", "checkpoint.max_writers=1")
SIZE = 2_500_000


@pytest.mark.only("pbs", "test_torch.py plays it there")
def test_the_deadline_comes_in_mid_copy_and_the_rest_is_copied_behind_it(lab: Lab) -> None:
    render(lab, *SLOW, steps=240, every=40, size=SIZE)
    lab.faults(waits(50))
    job = lab.submit()
    lab.wait_event("checkpoint_local", 90)
    lab.end_in(job, 70)  # all but some seconds of it is margin: training goes on to one more checkpoint
    lab.faults()
    ended = lab.wait_event("ended", 60)
    assert ended["class"] == "walltime"
    again = lab.wait_event("launched", 90, job=lab.successor(job))
    (written,) = lab.events("checkpoint_durable", job=job, step=again["step"])
    assert written["t"] > ended["t"]
    assert max(e["step"] for e in lab.events("checkpoint_local", job=job)) == again["step"]
    lab.finish()
    lab.assert_resumed()
    assert lab.endings()[-1] == "done"
    assert durable(lab)[-1] == 240
    names = {path.name for path in (lab.folder / "checkpoints/step-240").iterdir()}
    assert names == {".metadata", "MANIFEST.json", *(f"__{rank}_0.distcp" for rank in range(4))}
