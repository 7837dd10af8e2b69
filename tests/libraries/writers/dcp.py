"""Saves of torch.distributed.checkpoint, as torchtitan makes them, each rank in the folder of its host.

step-10 is saved at once; step-20 in the background, and rank 2 waits in it for a file `go`; in step-30 rank 2 is killed
when it has written half of its part. Each rank makes a file when it has come to a point: saved-10, begun-20, saved-20.
"""

import os
import signal
import time
from pathlib import Path

import forked
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard, distribute_tensor


class Writer(dcp.FileSystemWriter):
    """The real one, with accidents."""

    def __init__(self, folder: Path, step: int, accident: str = "") -> None:
        self.accident = accident if dist.get_rank() == 2 else ""
        self.go = folder / "go"
        super().__init__(folder / f"step-{step}", thread_count=1)

    def write_data(self, plan, planner):  # type: ignore[no-untyped-def]
        if self.accident == "wait":
            while not self.go.exists():
                time.sleep(0.05)
        if self.accident == "kill":
            part = Path(self.path) / "__2_0.distcp"
            part.write_bytes(b"x" * 100)
            os.kill(os.getpid(), signal.SIGKILL)
        return super().write_data(plan, planner)


def state(step: int) -> dict[str, object]:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))

    def cut(tensor: torch.Tensor) -> DTensor:
        return distribute_tensor(tensor, mesh, [Shard(0)])

    return {
        "model": {
            "layer.weight": cut(torch.randn(16, 8)),
            "layer.bias": torch.tensor([1.0, 2.0, float("nan") if step == 20 else 3.0]),
        },
        "optimizer": {"state.layer.weight.exp_avg": cut(torch.zeros(16, 8, dtype=torch.bfloat16))},
        "lr_scheduler": {"last_epoch": step},
        "dataloader": {f"dp_rank_{dist.get_rank()}": b"at 5"},
        "train_state": {"step": step},
    }


def main(folder: Path) -> None:
    dist.init_process_group("cpu:gloo")
    dcp.save(state(10), storage_writer=Writer(folder, 10))
    (folder / "saved-10").touch()
    future = dcp.async_save(state(20), storage_writer=Writer(folder, 20, "wait"))
    (folder / "begun-20").touch()
    future.result()
    (folder / "saved-20").touch()
    dcp.save(state(30), storage_writer=Writer(folder, 30, "kill"))


forked.run(main)
