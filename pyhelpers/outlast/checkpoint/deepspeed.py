"""Checkpoints of DeepSpeed: global_stepN/ beside a file `latest` that names the newest whole one.

By its documented layout, without the library. Source: deepspeedai/DeepSpeed 0.19.6 (edaa72212, 2026-08-22),
runtime/engine.py: _get_ckpt_name (mp_rank_MM_model_states.pt, with ZeRO 3 zero_pp_rank_D_mp_rank_MM_model_states.pt),
_get_rank_zero_ckpt_name ([bf16_]zero_pp_rank_D_mp_rank_MM_optim_states.pt), save_checkpoint: `latest` is written by
rank 0 behind all files, on rank 0's node; _common_checkpoint_state: dp_world_size and mp_world_size in model states.
"""

from __future__ import annotations

import re

from outlast.checkpoint import format as forms
from outlast.checkpoint import torchzip
from outlast.checkpoint.format import Look, Need, Reshard, Resume, Scene, Wanted
from outlast.checkpoint.listing import Snapshot

NAME = "deepspeed"
LATEST = "latest"
FOLDER = re.compile(r"global_step([0-9]+)/")
_STEP = re.compile(r"global_step([0-9]+)")
_MODEL = re.compile(r"mp_rank_([0-9]+)_model_states\.pt")
_SHARD = re.compile(r"((?:bf16_)?zero_pp_rank_)([0-9]+)_mp_rank_([0-9]+)_(model|optim)_states\.pt")


def step(snapshot: Snapshot) -> int | None:
    """The number of global_stepN."""
    found = None if snapshot.is_file else _STEP.fullmatch(snapshot.name)
    return int(found[1]) if found else None


def fits(snapshot: Snapshot) -> bool:
    """Has it model states or shards of ZeRO of its own?"""
    return any(_MODEL.fullmatch(path) or _SHARD.fullmatch(path) for path in snapshot.paths())


def wanted(snapshot: Snapshot, look: Look, scene: Scene) -> Wanted:
    """All model states and shards; `latest` must name this step or a later one."""
    found = inside(snapshot, look, "")
    if LATEST not in snapshot.beside:
        doubt = found.doubt or f"no file `{LATEST}` beside it says that it is whole"
        return Wanted(found.files, quiet=True, doubt=doubt)
    named = _STEP.fullmatch(forms.text_of(look, LATEST))
    mine = step(snapshot)
    if named and mine is not None and int(named[1]) < mine:
        # It is written last of all, so this one has not got so far.
        return Wanted(found.files, doubt=found.doubt, late=f"`{LATEST}` (rank 0) still names {named[0]}")
    return Wanted(found.files, quiet=not named, doubt=found.doubt)


def inside(snapshot: Snapshot, look: Look, prefix: str) -> Wanted:
    """The files of one folder global_stepN/ (`prefix`; empty: the checkpoint itself), from those that are there."""
    there = [path.removeprefix(prefix) for path in snapshot.paths() if path.startswith(prefix)]
    models = [name for name in there if _MODEL.fullmatch(name)]
    shards = [found for name in there if (found := _SHARD.fullmatch(name))]
    if not models and not shards:
        return Wanted({f"{prefix}mp_rank_00_model_states.pt": Need("rank 0")})
    data, tensor, doubt = _worlds(snapshot, look, prefix, models + [s[0] for s in shards if s[4] == "model"])
    seen_tensor = [int(m[1]) for name in models if (m := _MODEL.fullmatch(name))] + [int(s[3]) for s in shards]
    tensor = tensor or max(seen_tensor) + 1
    data = data or max((int(s[2]) for s in shards), default=0) + 1
    names = {f"mp_rank_{m:02d}_model_states.pt": _owner(0, m) for m in range(tensor) if models}
    for start, kind in sorted({(shard[1], shard[4]) for shard in shards}):
        both = [(d, m) for m in range(tensor) for d in range(data)]
        names |= {f"{start}{d}_mp_rank_{m:02d}_{kind}_states.pt": _owner(d, m) for d, m in both}
    files = {prefix + name: Need(owner, at_least=1) for name, owner in names.items()}
    return Wanted(files, doubt=doubt)


def _owner(data: int, tensor: int) -> str:
    return f"data rank {data}, model rank {tensor}"


def _worlds(snapshot: Snapshot, look: Look, prefix: str, models: list[str]) -> tuple[int, int, str]:
    """Data ranks and model ranks as one of the model states says, 0 where none does, and then why that is doubtful."""
    for name in models[:4]:
        try:
            with look(snapshot.path_of(prefix + name)) as file:
                content = torchzip.open_archive(file).content
        except (OSError, torchzip.ArchiveError):
            continue
        if isinstance(content, dict):
            data, tensor = content.get("dp_world_size"), content.get("mp_world_size")
            if isinstance(data, int) and isinstance(tensor, int) and 0 < data < 1 << 20 and 0 < tensor < 1 << 12:
                return data, tensor, ""
    return 0, 0, "no model states within reach tell the number of ranks"


def loss(snapshot: Snapshot, look: Look) -> float | None:
    """Unknown: DeepSpeed stores what the trainer hands it."""
    return None


def world(snapshot: Snapshot, look: Look) -> int | None:
    """Data ranks times model ranks."""
    models = [p for p in snapshot.paths() if _MODEL.fullmatch(p) or ((s := _SHARD.fullmatch(p)) and s[4] == "model")]
    data, tensor, _ = _worlds(snapshot, look, "", models)
    return data * tensor or None


def resume(snapshot: Snapshot) -> Resume:
    """load_checkpoint(DIR) reads DIR/latest."""
    return Resume("latest", f"{LATEST}: {snapshot.name}")


def reshard(snapshot: Snapshot, look: Look) -> Reshard:
    """Only as a universal checkpoint, which `ds_to_universal.py` makes of it."""
    if any(_SHARD.fullmatch(path) for path in snapshot.paths()):
        return Reshard("no", "ZeRO's files are cut for their number of data ranks; ds_to_universal.py converts them")
    return Reshard("unknown", "no ZeRO files, so any number of data ranks may do, and no other of model ranks")


def lacks(snapshot: Snapshot, look: Look, scene: Scene) -> list[str]:
    """Optimizer and schedule are in it by design; random states and the data's position are the trainer's business."""
    states, client = {}, ""
    for path in (p for p in snapshot.paths() if _MODEL.fullmatch(p) or _SHARD.fullmatch(p)):
        try:
            with look(snapshot.path_of(path)) as file:
                content = torchzip.open_archive(file).content
        except (OSError, torchzip.ArchiveError):
            continue
        if isinstance(content, dict) and "module" in content:
            states, client = content, path
            break
    if not client:
        return ["no model states can be read, so nothing is known"]
    lack = []
    if not any("_optim_states" in path for path in snapshot.paths()) and states.get("optimizer") is None:
        lack.append("optimizer: none in model states, and no *_optim_states.pt")
    if states.get("lr_scheduler") is None:
        lack.append(f"schedule: lr_scheduler in {client} is empty")
    words = {str(key) for key in states}
    if not any("rng" in word or "random_state" in word for word in words):
        lack.append("RNG: no key of the model states is named so; DeepSpeed stores none itself (client_state can)")
    if states.get("data_sampler") is None and not any("data" in word for word in words - {"data_sampler"}):
        lack.append("data position: none in the model states (client_state can hold it)")
    return lack
