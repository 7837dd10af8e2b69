"""A trainer for the lab that is a real one: FSDP over gloo, saves by PyTorch's DCP, laid out as torchtitan's.

Each step is a forward and a backward pass whose gradients go through all ranks, so one that stops blocks the others.
`--async-save` writes behind the training, as torchtitan's async mode. Accidents are those of outlast.demo.faults
(faults.json): between two steps, or in a save, when this rank has written half of its part.

It resumes from the newest step of its own folder that has a .metadata. It leaves with an error where ranks have found
different steps, and where the parts that it has loaded are not all of that step. Whatever happened on the way, a step
has the same loss to the last bit: it is printed with all its digits.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Shard, distribute_tensor
from torch.nn.functional import mse_loss

from outlast.demo.faults import Faults, path_from

WIDTH = 64


class Writer(dcp.FileSystemWriter):
    """The real one, with accidents: they come when half a part is on the disk."""

    def __init__(self, folder: Path, faults: Faults, step: int, made: int) -> None:
        super().__init__(folder, thread_count=1)
        self.faults, self.at = faults, (step, made)

    def write_data(self, plan: Any, planner: Any) -> Any:
        part = Path(self.path) / f"__{dist.get_rank()}_0.distcp"
        if any(fault.kind in ("slow_save", "enospc") for fault in self.faults.list):
            part.write_bytes(b"half of it")
            self.faults.in_save(*self.at)
        return super().write_data(plan, planner)


class Training:
    """The model, its optimizer, and a ballast that gives checkpoints their size."""

    def __init__(self, mesh: DeviceMesh, size: int) -> None:
        torch.manual_seed(1)
        self.model = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.GELU(), torch.nn.Linear(WIDTH, 1))
        fully_shard(self.model, mesh=mesh)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-2)
        self.ballast = distribute_tensor(torch.zeros(mesh.size() * max(size // 4, 1)), mesh, [Shard(0)])
        self.step = 0

    def state(self) -> dict[str, Any]:
        """What is saved, under torchtitan's names."""
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer, "ballast": self.ballast, "train_state": {"step": self.step}}

    def load(self, folder: Path) -> None:
        """Go on from there. Raises: SystemExit: its parts are not of one step."""
        state = self.state()
        dcp.load(state, checkpoint_id=folder)
        set_state_dict(self.model, self.optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
        self.step = state["train_state"]["step"]
        steps = {float(one["step"]) for one in self.optimizer.state.values()} | set(_local(self.ballast).tolist())
        if steps != {float(self.step)} or folder.name != f"step-{self.step}":
            sys.exit(f"ValueError: {folder} has parts of the steps {sorted(steps)}")

    def once(self) -> float:
        """A step: its loss, averaged over all ranks."""
        self.step += 1
        torch.manual_seed(self.step * 1000 + dist.get_rank())
        data = torch.randn(8, WIDTH)
        loss = mse_loss(self.model(data), data.sum(dim=1, keepdim=True))
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        _local(self.ballast).fill_(self.step)
        mean = loss.detach()
        dist.all_reduce(mean)
        return mean.item() / dist.get_world_size()


def _local(tensor: DTensor) -> torch.Tensor:
    return tensor.to_local()


def newest(folder: Path) -> int:
    """The newest step that this rank finds, which must be what all find; 0: none."""
    found = [int(path.parent.name.removeprefix("step-")) for path in folder.glob("step-*/.metadata")]
    steps: list[int] = [0] * dist.get_world_size()
    dist.all_gather_object(steps, max(found, default=0))
    if len(set(steps)) > 1:
        sys.exit(f"RuntimeError: the ranks start from different steps: {steps}")
    return steps[0]


class Saves:
    """One save at a time, as torchtitan: the next one waits for the one before."""

    def __init__(self, folder: Path, faults: Faults, is_async: bool) -> None:
        self.folder, self.faults = folder, faults
        # Of its own: what it says must not come between the words of the training.
        self.group = dist.new_group(backend="gloo") if is_async else None
        self.last: Future[Any] | None = None

    def save(self, training: Training, made: int) -> None:
        self.wait()
        writer = Writer(self.folder / f"step-{training.step}", self.faults, training.step, made)
        if self.group is None:
            dcp.save(training.state(), storage_writer=writer)
        else:
            self.last = dcp.async_save(training.state(), storage_writer=writer, process_group=self.group)

    def wait(self) -> None:
        if self.last is not None:
            self.last.result()
        self.last = None


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--step-s", type=float, default=0.1, help="a step takes at least so long")
    parser.add_argument("--every", type=int, default=20, help="save all so many steps")
    parser.add_argument("--size", type=int, default=100_000, help="bytes of a rank's part, more or less")
    parser.add_argument("--async-save", action="store_true")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    torch.set_num_threads(1)
    dist.init_process_group("cpu:gloo")
    faults = Faults(path_from(os.environ), dist.get_rank())
    training = Training(init_device_mesh("cpu", (dist.get_world_size(),)), args.size)
    saves = Saves(args.folder, faults, args.async_save)
    step = newest(args.folder)
    if step:
        training.load(args.folder / f"step-{step}")
    say(f"resumed from step {step}, promised {os.environ.get('OUTLAST_RESUME_STEP') or 0}")
    for made in range(args.steps - step):
        faults.between_steps(training.step, made)
        began_s = time.monotonic()
        loss = training.once()
        time.sleep(max(0.0, began_s + args.step_s - time.monotonic()))
        say(f"step: {training.step:2}  loss:  {loss:.9e}")
        if training.step % args.every == 0:
            saves.save(training, made)
    saves.wait()
    dist.barrier()
    dist.destroy_process_group()


def say(text: str) -> None:
    if dist.get_rank() == 0:
        print(text, flush=True)


if __name__ == "__main__":
    main()
