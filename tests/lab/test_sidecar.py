"""Checkpoints on their way from the nodes to the shared file system."""

from __future__ import annotations

import json

import pytest
from harness import Lab, wait_for, waits


@pytest.mark.only("slurm", "the PBS machine has no disks on its nodes")
def test_they_are_hashed_by_python_and_by_bash_where_that_dies(lab: Lab) -> None:
    lab.faults(waits())
    lab.render()
    job = lab.submit()
    lab.wait_event("checkpoint_durable")
    host = lab.host_of(job)

    def manifests() -> list[dict[str, object]]:
        paths = (lab.folder / "checkpoints").glob("checkpoint-*/MANIFEST.json")
        return [json.loads(path.read_text()) for path in paths]

    wait_for(lambda: any(m.get("algorithm") == "blake2b" for m in manifests()), 60, "a checkpoint made by Python")

    def kill() -> bool:
        lab.root(host, "pkill", "-KILL", "-f", "outlast sidecar", check=False)
        return bool(lab.events("warned"))

    wait_for(kill, 60, "the end of all tries")
    lab.faults()
    lab.finish()
    assert lab.endings() == ["done"]
    assert lab.durable_steps()[-1] == 100
    assert "ended 5 times" in lab.events("warned")[0]["text"]
    newest = max(manifests(), key=lambda manifest: int(str(manifest["step"])))
    assert "algorithm" not in newest
