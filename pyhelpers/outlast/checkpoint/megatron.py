"""Checkpoints of Megatron-LM: iter_0000500/ beside latest_checkpointed_iteration.txt.

By its documented layout, without the library. Source: NVIDIA/Megatron-LM core 0.20.0 (d98e8a64d, 2026-08-22),
training/checkpointing.py: get_checkpoint_name (mp_rank_TT[_PPP][_EEE]/model_optim_rng.pt), distrib_optim.pt beside it,
the tracker is written in iter_finalize_fn, behind all files; core/dist_checkpointing: metadata.json and, with the
backend torch_dist, a distributed checkpoint of PyTorch; older ones also common.pt.
"""

from __future__ import annotations

import re

from outlast.checkpoint import dcp, torchzip
from outlast.checkpoint import format as forms
from outlast.checkpoint.format import Look, Need, Reshard, Resume, Scene, Wanted
from outlast.checkpoint.listing import Snapshot
from outlast.checkpoint.pickles import Record

NAME = "megatron"
TRACKER = "latest_checkpointed_iteration.txt"
CONFIG = "metadata.json"
_STEP = re.compile(r"iter_([0-9]{7,})")
_RANK = re.compile(r"mp_rank_([0-9]{2,})(?:_([0-9]{3,}))?(?:_([0-9]{3,}))?/model_optim_rng\.pt")


def step(snapshot: Snapshot) -> int | None:
    """The number of iter_NNNNNNN."""
    found = None if snapshot.is_file else _STEP.fullmatch(snapshot.name)
    return int(found[1]) if found else None


def fits(snapshot: Snapshot) -> bool:
    """Is its name Megatron's, and what it holds as well?"""
    paths = snapshot.paths()
    return any(_RANK.fullmatch(path) for path in paths) or (step(snapshot) is not None and bool(paths))


def wanted(snapshot: Snapshot, look: Look, scene: Scene) -> Wanted:
    """The parts of the distributed checkpoint, or each rank's file; the tracker must name this step or a later one."""
    found = _distributed(snapshot, look) if _is_distributed(snapshot) else _legacy(snapshot, look)
    doubt, late = found.doubt, ""
    tracked = forms.text_of(look, TRACKER)
    mine = step(snapshot)
    if TRACKER not in snapshot.beside:
        doubt = doubt or f"no {TRACKER} beside it says that it is whole"
    elif tracked.isdecimal() and mine is not None and int(tracked) < mine:
        late = f"{TRACKER} (rank 0) still says {int(tracked)}"
    return Wanted(found.files, quiet=found.quiet, doubt=doubt, late=late, lost=found.lost)


def _is_distributed(snapshot: Snapshot) -> bool:
    return not any(_RANK.fullmatch(path) for path in snapshot.paths())


def _distributed(snapshot: Snapshot, look: Look) -> Wanted:
    files = {CONFIG: Need("rank 0", at_least=2)}
    if dcp.METADATA not in snapshot.files:
        return Wanted({**files, dcp.METADATA: Need("rank 0")})
    parts = dcp.parts(look, snapshot.name)
    return Wanted({**files, **parts.files}, doubt=parts.doubt, lost=parts.lost)


def _legacy(snapshot: Snapshot, look: Look) -> Wanted:
    """Each rank's file as the trainer's arguments in one of them say, or else as the names of those there say."""
    found = [rank for path in snapshot.paths() if (rank := _RANK.fullmatch(path))]
    tensor, pipeline, doubt = _arguments(snapshot, look, found[0][0])
    tensor = tensor or max(int(rank[1]) for rank in found) + 1
    pipeline = pipeline or max(int(rank[2] or 0) for rank in found) + 1
    experts = sorted({rank[3] for rank in found if rank[3]})
    files: dict[str, Need] = {}
    for t in range(tensor):
        for p in range(pipeline):
            stage = f"_{p:03d}" if pipeline > 1 else ""
            for name in [f"mp_rank_{t:02d}{stage}_{e}" for e in experts] or [f"mp_rank_{t:02d}{stage}"]:
                files[f"{name}/model_optim_rng.pt"] = Need(f"tensor rank {t}, pipeline rank {p}", at_least=1)
    if experts or any(rank[2] for rank in found if pipeline == 1):
        return Wanted({rank[0]: Need() for rank in found}, quiet=True, doubt="with experts the ranks are not known")
    return Wanted(files, quiet=bool(doubt), doubt=doubt)


def _arguments(snapshot: Snapshot, look: Look, path: str) -> tuple[int, int, str]:
    try:
        with look(snapshot.path_of(path)) as file:
            content = torchzip.open_archive(file).content
    except (OSError, torchzip.ArchiveError):
        return 0, 0, "no file within reach tells the number of ranks"
    said = content.get("args") if isinstance(content, dict) else None
    sizes = [said.get(f"{kind}_model_parallel_size") if isinstance(said, Record) else None for kind in _KINDS]
    if all(isinstance(size, int) and 0 < size < 1 << 16 for size in sizes):
        return int(sizes[0] or 0), int(sizes[1] or 0), ""
    return 0, 0, f"{path} does not tell the number of ranks"


_KINDS = ("tensor", "pipeline")


def loss(snapshot: Snapshot, look: Look) -> float | None:
    """Unknown: it is only in the log."""
    return None


def world(snapshot: Snapshot, look: Look) -> int | None:
    """The highest rank that wrote a part of a distributed one; of the older layout unknown."""
    return dcp.world(snapshot, look) if _is_distributed(snapshot) else None


def resume(snapshot: Snapshot) -> Resume:
    """--load DIR reads the tracker."""
    return Resume("latest", f"{TRACKER}: {step(snapshot)}")


def reshard(snapshot: Snapshot, look: Look) -> Reshard:
    """The distributed one can; the older layout has one file a rank."""
    if _is_distributed(snapshot):
        return Reshard("yes", "a distributed checkpoint (torch_dist)")
    return Reshard("no", "one file for each tensor and pipeline rank; Megatron's tools convert it")


def lacks(snapshot: Snapshot, look: Look, scene: Scene) -> list[str]:
    """Saved with --no-save-optim or --no-save-rng it lacks them; the data's position is its count of samples."""
    if _is_distributed(snapshot):
        return _lacks_distributed(snapshot, look)
    path = next(path for path in snapshot.paths() if _RANK.fullmatch(path))
    try:
        with look(snapshot.path_of(path)) as file:
            content = torchzip.open_archive(file).content
    except (OSError, torchzip.ArchiveError) as err:
        return [f"{path} cannot be read ({err}), so nothing is known"]
    keys = content if isinstance(content, dict) else {}
    has_optimizer = "optimizer" in keys or any(path.endswith("distrib_optim.pt") for path in snapshot.paths())
    lack = [] if has_optimizer else ["optimizer: neither in the file nor distrib_optim.pt (--no-save-optim?)"]
    lack += [] if "opt_param_scheduler" in keys else ["schedule: no opt_param_scheduler"]
    lack += [] if "rng_state" in keys else ["RNG: no rng_state (--no-save-rng?)"]
    return lack


def _lacks_distributed(snapshot: Snapshot, look: Look) -> list[str]:
    try:
        entries = dcp.metadata(look, snapshot.path_of(dcp.METADATA)).slices
    except (OSError, dcp.MetadataError) as err:
        return [f"{dcp.METADATA} cannot be read ({getattr(err, 'strerror', None) or err}), so nothing is known"]
    names = " ".join(entries)
    lack = [] if "optimizer." in names else ["optimizer: no entry is named so (--no-save-optim?)"]
    return lack + ([] if "rng_state" in names else ["RNG: no entry rng_state (--no-save-rng?)"])
