"""Checkpoints of Hugging Face's Trainer: checkpoint-N/.

Source: transformers 5.24.0, trainer.py (_save_checkpoint, _save_rng_state, _load_rng_state), trainer_callback.py
(TrainerState.save_to_json writes in place): rank 0 writes weights, optimizer, scheduler, its random state, and
trainer_state.json last; every other rank writes rng_state_N.pth meanwhile into the folder of that name *on its own
node*, and nobody waits for it. With FSDP or DeepSpeed all ranks write parts, in folders below.
Accelerate 1.15.0, utils/fsdp_utils.py: pytorch_model_fsdp_0/ and optimizer_0/ are distributed checkpoints.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from outlast.checkpoint import dcp, deepspeed, safe, torchzip
from outlast.checkpoint import format as forms
from outlast.checkpoint.format import Look, Need, Reshard, Resume, Scene, Wanted
from outlast.checkpoint.listing import Snapshot

NAME = "hf"
STATE = "trainer_state.json"
INDEXES = ("model.safetensors.index.json", "pytorch_model.bin.index.json", "adapter_model.safetensors.index.json")
WEIGHTS = (
    "model.safetensors",
    "pytorch_model.bin",
    "adapter_model.safetensors",
    "adapter_model.bin",
    "pytorch_model_fsdp.bin",
    f"pytorch_model_fsdp_0/{dcp.METADATA}",
)
OPTIMIZERS = ("optimizer.pt", "optimizer.bin", "optimizer.safetensors", f"optimizer_0/{dcp.METADATA}")
SCHEDULES = ("scheduler.pt", "scheduler.json")
# Written before the weights, or by a rank that writes nothing else.
FIRST = ("config.json", "adapter_config.json", "generation_config.json", "rng_state.pth")
_STEP = re.compile(r"checkpoint-([0-9]+)")
_RANDOM = re.compile(r"rng_state_([0-9]+)\.pth")
_BELOW = re.compile(r"([^/]+)/")


def step(snapshot: Snapshot) -> int | None:
    """The number of checkpoint-N."""
    found = None if snapshot.is_file else _STEP.fullmatch(snapshot.name)
    return int(found[1]) if found else None


def fits(snapshot: Snapshot) -> bool:
    """Is there a trainer_state.json, or, before that is written, what a Trainer writes first?"""
    if STATE in snapshot.files or "training_args.bin" in snapshot.files:
        return True
    if step(snapshot) is None:
        return False
    return bool(_ranks(snapshot) or any(name in snapshot.files for name in (*FIRST, *INDEXES, *WEIGHTS, *OPTIMIZERS)))


def wanted(snapshot: Snapshot, look: Look, scene: Scene) -> Wanted:
    """The weights (all shards of an index), trainer_state.json, and the random state of each rank."""
    files = {STATE: Need("rank 0", at_least=2)}
    found = [_weights(snapshot, look), *_below(snapshot, look, scene), _state(snapshot, look)]
    for one in found:
        files |= one.files
    files |= _random(snapshot, scene)
    doubt, late, lost = (
        next(filter(None, w), "") for w in zip(*((f.doubt, f.late, f.lost) for f in found), strict=True)
    )
    quiet = not (scene.writer == "gone" and _is_proven(snapshot, look, scene))
    return Wanted(files, quiet=quiet, doubt=doubt, late=late, lost=lost)


def _is_proven(snapshot: Snapshot, look: Look, scene: Scene) -> bool:
    """Do its files themselves show that all ranks had ended it? Then it need not have been at rest when they died.

    trainer_state.json is the last of rank 0; the others have written one archive each. Below a folder all write.
    """
    if any("/" in path for path in snapshot.paths()) or not isinstance(_json(snapshot, look), dict):
        return False
    ranks = _ranks(snapshot)
    if ranks and scene.world is None:
        return False
    return all(_is_archive(snapshot, look, f"rng_state_{rank}.pth") for rank in ranks)


def _is_archive(snapshot: Snapshot, look: Look, path: str) -> bool:
    try:
        with look(snapshot.path_of(path)) as file:
            torchzip.open_archive(file)
    except (OSError, torchzip.ArchiveError):
        return False
    return True


def _json(snapshot: Snapshot, look: Look) -> Any:
    return forms.json_of(look, snapshot.path_of(STATE))


def _weights(snapshot: Snapshot, look: Look) -> Wanted:
    """The files with weights, each as long as its own header says."""
    for index in (name for name in INDEXES if name in snapshot.files):
        content = forms.json_of(look, snapshot.path_of(index))
        shards = content.get("weight_map") if isinstance(content, dict) else None
        if not isinstance(shards, dict):
            return Wanted({index: Need("rank 0")}, doubt=f"{index} cannot be read, so its shards are not known")
        told = _sized(snapshot, look, sorted({str(name) for name in shards.values()}))
        return replace(told, files={index: Need("rank 0"), **told.files})
    there = [name for name in WEIGHTS if name in snapshot.files]
    if there or any(deepspeed.FOLDER.match(path) for path in snapshot.paths()):
        return _sized(snapshot, look, there)
    return Wanted({WEIGHTS[0]: Need("rank 0")})


def _sized(snapshot: Snapshot, look: Look, paths: Sequence[str]) -> Wanted:
    files, late = {}, ""
    for path in paths:
        files[path] = Need("rank 0", at_least=8)
        if not path.endswith(".safetensors"):
            continue
        try:
            with look(snapshot.path_of(path)) as file:
                files[path] = Need("rank 0", size=safe.size(file))
        except safe.SafeError as err:
            late = late or f"{path} (rank 0) {err}"
        except OSError:
            pass  # not within reach: that it is there must do
    return Wanted(files, late=late)


def _below(snapshot: Snapshot, look: Look, scene: Scene) -> list[Wanted]:
    """What the folders below must hold: distributed checkpoints of FSDP, DeepSpeed's own."""
    folders = sorted({found[1] for path in snapshot.paths() if (found := _BELOW.match(path))})
    parts = [folder for folder in folders if any(dcp.owner(p) for p in snapshot.paths() if p.startswith(f"{folder}/"))]
    below = [dcp.parts(look, snapshot.name, f"{folder}/") for folder in parts]
    return below + [deepspeed.inside(snapshot, look, f"{f}/") for f in folders if deepspeed.FOLDER.fullmatch(f"{f}/")]


def _random(snapshot: Snapshot, scene: Scene) -> dict[str, Need]:
    """One rng_state_N.pth a rank, where it writes them at all (save_only_model doesn't)."""
    ranks = _ranks(snapshot)
    if not ranks:
        return {}
    # More than the launch knows of where each of its ranks is a torchrun.
    world = max(scene.world or 0, max(ranks) + 1)
    return {f"rng_state_{rank}.pth": Need(f"rank {rank}", at_least=1) for rank in range(world)}


def _ranks(snapshot: Snapshot) -> list[int]:
    return [int(found[1]) for path in snapshot.paths() if (found := _RANDOM.fullmatch(path))]


def _state(snapshot: Snapshot, look: Look) -> Wanted:
    """What a look into trainer_state.json tells; where that is not within reach, that it is there must do."""
    try:
        look(snapshot.path_of(STATE)).close()
    except OSError:
        return Wanted()
    state = _json(snapshot, look)
    if not isinstance(state, dict):
        return Wanted(late=f"{STATE} (rank 0) is no whole JSON")
    said, named = state.get("global_step"), step(snapshot)
    if isinstance(said, int) and named is not None and said != named:
        return Wanted(lost=f"{STATE} says step {said}, its name says {named}")
    return Wanted()


def loss(snapshot: Snapshot, look: Look) -> float | None:
    """eval_loss of the evaluation at its own step."""
    state = _json(snapshot, look)
    history = state.get("log_history") if isinstance(state, dict) else None
    if not isinstance(history, list):
        return None
    at = [e for e in history if isinstance(e, dict) and "eval_loss" in e and e.get("step") == state.get("global_step")]
    return forms.number(at[-1]["eval_loss"]) if at else None


def world(snapshot: Snapshot, look: Look) -> int | None:
    """One more than the highest rank of a rng_state_N.pth; 1 where there is only rng_state.pth."""
    ranks = _ranks(snapshot)
    if ranks:
        return max(ranks) + 1
    return 1 if "rng_state.pth" in snapshot.files else None


def resume(snapshot: Snapshot) -> Resume:
    """--resume_from_checkpoint PATH, as TrainingArguments has it."""
    return Resume("path", snapshot.name)


def reshard(snapshot: Snapshot, look: Look) -> Reshard:
    """Weights and optimizer of DDP are whole; those of DeepSpeed are cut for their ranks."""
    if any(deepspeed.FOLDER.match(path) for path in snapshot.paths()):
        return Reshard("no", "DeepSpeed's ZeRO files are cut for their number of ranks")
    return Reshard("yes", "but other ranks see other data: each skips as many batches as before")


def lacks(snapshot: Snapshot, look: Look, scene: Scene) -> list[str]:
    """Optimizer, schedule, random state of each rank, position in the data (global_step)."""
    lack = []
    has_deepspeed = any(deepspeed.FOLDER.match(path) for path in snapshot.paths())
    if not has_deepspeed and not any(name in snapshot.files for name in OPTIMIZERS):
        lack.append("optimizer: no optimizer.pt (save_only_model?)")
    if not has_deepspeed and not any(name in snapshot.files for name in SCHEDULES):
        lack.append("schedule: no scheduler.pt")
    ranks, count = set(_ranks(snapshot)), scene.world or world(snapshot, look) or 1
    if not any(name in snapshot.files for name in ("rng_state.pth", "rng_state.json")):
        gone = [str(rank) for rank in range(count) if rank not in ranks]
        lack += [f"RNG: no rng_state_N.pth of rank {', '.join(gone[:8])}"] if gone else []
    state = _json(snapshot, look)
    if not isinstance(state, dict) or not isinstance(state.get("global_step"), int):
        lack.append(f"data position: {STATE} has no global_step, by which the Trainer skips batches")
    return lack
