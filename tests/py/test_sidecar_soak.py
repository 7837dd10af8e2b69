"""Coordinator, agents and hosts die at random moments: ten kills a story, three stories here, fifty in `make soak`.

Nothing that was whole and had time is lost, nothing that was not whole is offered, and what is offered verifies.
"""

import os
import random
import time
from pathlib import Path

import pytest
from sidecar_cluster import Cluster, verify, wait_for

STORIES = int(os.environ.get("OUTLAST_SOAK_STORIES", "3"))
FIRST = int(os.environ.get("OUTLAST_SOAK_SEED", "1"))
KILLS = 10


class Story:
    """A run of some launches; `whole` has the content of every checkpoint that was once whole, by step."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.cluster = cluster
        self.chance = random.Random(seed)
        self.step = 0
        self.attempt = 1
        self.whole: dict[int, list[dict[str, bytes]]] = {}
        self.in_place: int | None = None  # the newest whole one of this launch, still on every node

    def save(self) -> None:
        self.step += 10
        size = self.chance.choice([1000, 300_000, 3_000_000])
        if self.chance.random() < 0.2:
            self.cluster.save_sharded(self.step, size, torn=self.chance.choice(self.cluster.hosts[1:]))
            return
        content = self.cluster.save_sharded(self.step, size)
        self.whole.setdefault(self.step, []).append(content)
        self.in_place = self.step

    def kill(self) -> None:
        """Somebody, at some moment; started again after a while."""
        cluster = self.cluster
        time.sleep(self.chance.random() * 0.3)
        victim = self.chance.choice([*cluster.hosts, "h0", "own agent", "host"])
        if victim == "own agent":
            cluster.kill_own_agent()
        elif victim == "host":
            self.lose(self.chance.choice(cluster.hosts[1:]))
        else:
            cluster.kill(victim)
            time.sleep(self.chance.random() * 0.2)
            cluster.start(victim)

    def lose(self, host: str) -> None:
        """A host with all that lies on it. The ranks end, what can be saved is, the next launch goes on from there."""
        cluster = self.cluster
        cluster.kill(host)
        (cluster.root / host / "checkpoints").rename(cluster.root / f"{host}/lost.{time.time_ns()}")
        (cluster.root / host / "checkpoints").mkdir()
        cluster.end(1)
        cluster.drain()
        cluster.start(host)
        self.relaunch()

    def relaunch(self) -> None:
        cluster = self.cluster
        steps = cluster.durable_steps()
        self.step = steps[-1] if steps else 0
        for name in cluster.hosts:
            for path in cluster.folder(name).glob("step-*"):
                if path.name != f"step-{self.step}":
                    path.rename(path.parent / f".unused.{time.time_ns()}")
        self.attempt += 1
        self.in_place = None
        cluster.launch(self.attempt)

    def check(self) -> None:
        for step in self.cluster.durable_steps():
            top = self.cluster.run / f"checkpoints/step-{step}"
            assert verify(top) == step
            found = {str(path.relative_to(top)): path.read_bytes() for path in top.rglob("*") if path.is_file()}
            del found["MANIFEST.json"]
            assert found in self.whole.get(step, []), f"step {step} is none that was ever whole"


@pytest.mark.parametrize("seed", range(FIRST, FIRST + STORIES))
def test_whatever_dies_nothing_whole_is_lost_and_nothing_torn_is_offered(tmp_path: Path, seed: int) -> None:
    cluster = Cluster(tmp_path, hosts=3)
    story = Story(cluster, seed)
    try:
        cluster.start()
        for _ in range(KILLS):
            story.save()
            story.kill()
            before = cluster.durable_steps()
            story.check()
            assert not before or max(cluster.durable_steps()) >= max(before)
        wait_for(lambda: all(p.poll() is None for p in cluster.processes.values()), "everybody")
        cluster.end(story.chance.choice([0, 1]))
        cluster.drain()
        story.check()
        if story.in_place is not None:
            assert cluster.durable_steps()[-1] == story.in_place, "it was whole and had time"
    finally:
        cluster.stop()
