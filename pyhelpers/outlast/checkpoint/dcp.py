"""PyTorch's distributed checkpoint (DCP), as torchtitan and ezpz lay it out: step-N/.metadata and __RANK_N.distcp.

Sources: pytorch 2.13.0, torch/distributed/checkpoint/{filesystem,metadata}.py: .metadata is written by the coordinator
after all ranks have written their parts, under another name first; it names each part, offset and length.
pytorch/torchtitan b5bcd76c6 (2026-08-21), components/checkpointer/dcp.py: step-N, _find_load_step() takes .metadata or
model.safetensors.index.json as the sign of a whole one; what it saves: model, optimizer, lr_scheduler, dataloader,
train_state. saforem2/ezpz 1229a17 (2026-08-21), examples/_checkpoint.py: meta.json, then .complete, behind all that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from outlast.checkpoint import format as forms
from outlast.checkpoint import pickles
from outlast.checkpoint.format import Look, Need, Reshard, Resume, Scene, Wanted
from outlast.checkpoint.listing import Snapshot
from outlast.checkpoint.pickles import Record

NAME = "dcp"
METADATA = ".metadata"
EXPORT = "model.safetensors.index.json"  # torchtitan's last_save_in_hf
_STEP = re.compile(r"step[-_]([0-9]+)")
_PART = re.compile(r"(?:.*/)?__([0-9]+)_[0-9]+\.distcp")
_OWN_METADATA = re.compile(r"__([0-9]+)\.metadata")  # with use_collectives=False each rank writes its own


class MetadataError(ValueError):
    """A .metadata that can't be read; the message says why."""


@dataclass(frozen=True)
class Slice:
    """Where one entry of the state lies: bytes of a part."""

    part: str
    offset: int
    length: int


@dataclass(frozen=True)
class Metadata:
    """What a .metadata says: where each entry lies, and the shape of each tensor (empty: an object)."""

    slices: Mapping[str, tuple[Slice, ...]]  # by name of the entry
    shapes: Mapping[str, tuple[int, ...]]

    def ends(self) -> dict[str, int]:
        """The bytes that each part must have at least."""
        ends: dict[str, int] = {}
        for slices in self.slices.values():
            for one in slices:
                ends[one.part] = max(ends.get(one.part, 0), one.offset + one.length)
        return ends


def metadata(look: Look, path: str) -> Metadata:
    """A .metadata file.

    Raises: MetadataError; OSError.
    """
    with look(path) as file:
        try:
            content = pickles.read(file)
        except pickles.PickleError as err:
            raise MetadataError(str(err)) from err
    if not isinstance(content, Record) or not isinstance(content.get("storage_data"), dict):
        raise MetadataError("a pickle, but no metadata of a distributed checkpoint")
    slices: dict[str, list[Slice]] = {}
    for index, info in content.get("storage_data").items():
        fields = info.fields if isinstance(info, Record) else {}
        part, offset, length = (fields.get(key) for key in ("relative_path", "offset", "length"))
        if not isinstance(part, str) or not isinstance(offset, int) or not isinstance(length, int):
            raise MetadataError("an entry without relative_path, offset and length")
        name = index.get("fqn", "") if isinstance(index, Record) else ""
        slices.setdefault(str(name), []).append(Slice(part, offset, length))
    return Metadata({name: tuple(parts) for name, parts in slices.items()}, _shapes(content.get("state_dict_metadata")))


def _shapes(entries: object) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    for name, entry in entries.items() if isinstance(entries, dict) else ():
        size = entry.get("size") if isinstance(entry, Record) else None
        sides = size.args[0] if isinstance(size, Record) and size.args else ()
        shapes[str(name)] = tuple(side for side in sides if isinstance(side, int)) if isinstance(sides, tuple) else ()
    return shapes


def parts(look: Look, folder: str, inside: str = "") -> Wanted:
    """The parts that the .metadata of a folder names; `inside` is put before their names."""
    try:
        ends = metadata(look, f"{folder}/{inside}{METADATA}").ends()
    except MetadataError as err:
        return Wanted({inside + METADATA: Need("rank 0")}, lost=f"{inside}{METADATA} cannot be read: {err}")
    except FileNotFoundError:
        return Wanted({inside + METADATA: Need("rank 0")}, doubt=f"{inside}{METADATA} is not within reach")
    except OSError as err:
        return Wanted({inside + METADATA: Need("rank 0")}, doubt=f"{inside}{METADATA} cannot be read: {err.strerror}")
    files = {inside + part: Need(owner(part), at_least=end) for part, end in ends.items()}
    return Wanted({inside + METADATA: Need("rank 0"), **files})


def owner(part: str) -> str:
    """`rank 3` of __3_0.distcp; empty where the name says none."""
    found = _PART.fullmatch(part)
    return f"rank {found[1]}" if found else ""


def step(snapshot: Snapshot) -> int | None:
    """The number of step-N."""
    found = None if snapshot.is_file else _STEP.fullmatch(snapshot.name)
    return int(found[1]) if found else None


def fits(snapshot: Snapshot) -> bool:
    """Has it parts or a .metadata of its own? Below another folder they belong to another format."""
    paths = snapshot.paths()
    return any("/" not in p and (p == METADATA or _PART.fullmatch(p) or _OWN_METADATA.fullmatch(p)) for p in paths)


def wanted(snapshot: Snapshot, look: Look, scene: Scene) -> Wanted:
    """What .metadata names. ezpz writes meta.json and .complete behind it: with the one there must be the other."""
    own = [int(found[1]) for path in snapshot.paths() if (found := _OWN_METADATA.fullmatch(path))]
    if own:
        return _of_each_rank(snapshot, look, scene, own)
    files: dict[str, Need] = {METADATA: Need("rank 0")}
    doubt = lost = ""
    if METADATA in snapshot.files:
        named = parts(look, snapshot.name)
        files, doubt, lost = dict(named.files), named.doubt, named.lost
    if "meta.json" in snapshot.files:
        files[".complete"] = Need("rank 0")
    return Wanted(files, doubt=doubt, lost=lost)


def _of_each_rank(snapshot: Snapshot, look: Look, scene: Scene, own: list[int]) -> Wanted:
    files: dict[str, Need] = {}
    doubt = lost = ""
    for rank in range(max(scene.world or 0, max(own) + 1)):
        name = f"__{rank}{METADATA}"
        files[name] = Need(f"rank {rank}")
        if name not in snapshot.files:
            continue
        try:
            ends = metadata(look, snapshot.path_of(name)).ends()
        except MetadataError as err:
            lost = f"{name} cannot be read: {err}"
        except OSError as err:
            doubt = f"{name} is not within reach ({err.strerror or err})"
        else:
            files |= {part: Need(f"rank {rank}", at_least=end) for part, end in ends.items()}
    if scene.world is None:
        doubt = doubt or "each rank writes its own metadata, and the number of ranks is not known"
    return Wanted(files, doubt=doubt, lost=lost)


def loss(snapshot: Snapshot, look: Look) -> float | None:
    """Unknown, unless ezpz's meta.json has one."""
    meta = forms.json_of(look, snapshot.path_of("meta.json"))
    return forms.number(meta.get("eval_loss", meta.get("val_loss"))) if isinstance(meta, dict) else None


def world(snapshot: Snapshot, look: Look) -> int | None:
    """One more than the highest rank that wrote a part: in a save each rank has something to write."""
    ranks = [int(found[1]) for path in snapshot.paths() if (found := _PART.fullmatch(path))]
    return max(ranks) + 1 if ranks else None


def resume(snapshot: Snapshot) -> Resume:
    """torchtitan takes the newest step in its folder."""
    return Resume("own", f"the newest step in its folder that has {METADATA}")


def reshard(snapshot: Snapshot, look: Look) -> Reshard:
    """DCP loads into any layout; what is stored as an object of each rank (a data loader's state) it does not."""
    if any(_OWN_METADATA.fullmatch(path) for path in snapshot.paths()):
        return Reshard("no", "each rank wrote its own metadata")
    return Reshard("yes", "DCP reads any part of any tensor; data loaders of torchtitan ask for the same data ranks")


# What the first words of an entry's name say, by what an exact resume needs.
_KINDS = {
    "optimizer": ("optimizer", "optim"),
    "schedule": ("lr_scheduler", "scheduler"),
    "data position": ("dataloader", "data_loader", "train_dataloader"),
    "RNG": ("rng", "rng_state", "random_state"),
}


def lacks(snapshot: Snapshot, look: Look, scene: Scene) -> list[str]:
    """What no entry of .metadata is named after. torchtitan saves no random state."""
    try:
        entries = metadata(look, snapshot.path_of(METADATA)).slices
    except (OSError, MetadataError) as err:
        return [f"{METADATA} cannot be read ({getattr(err, 'strerror', None) or err}), so nothing is known"]
    tops = {word for name in entries for word in re.split(r"[./]", name)[:2]}
    missing = [kind for kind, words in _KINDS.items() if not tops.intersection(words)]
    meta = forms.json_of(look, snapshot.path_of("meta.json"))
    if isinstance(meta, dict) and "batch_offset" in meta:
        missing = [kind for kind in missing if kind != "data position"]
    return [f"{kind}: no entry of {METADATA} is named {' or '.join(_KINDS[kind])}" for kind in missing]
