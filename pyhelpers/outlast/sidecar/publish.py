"""What makes a copied checkpoint a durable one: the manifest, last, by rename, under the lease.

All of it runs in children of the coordinator (child.py), for the shared file system may hang.
"""

import os
import re
import shutil
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from outlast.checkpoint import manifest, trash
from outlast.checkpoint.manifest import NAME as MANIFEST

GENERATION = re.compile(r"[0-9]{6}")


class LeaseLostError(Exception):
    """The run is another job's."""


class TornError(Exception):
    """What lies there is not what was copied."""


def newest_lease(lease: Path) -> str:
    """The highest generation there is. Raises: OSError: the folder can't be read, or holds none."""
    found = [name for name in os.listdir(lease) if GENERATION.fullmatch(name)]
    if not found:
        raise FileNotFoundError(f"{lease} holds no lease")
    return max(found)


def check_lease(lease: Path, generation: str) -> None:
    """Nothing, if the run is still ours. Raises: LeaseLostError, OSError."""
    if newest_lease(lease) != generation:
        raise LeaseLostError(f"lease {generation} is not the newest any more")


def _raise(err: OSError) -> None:
    raise err


def settle_files(top: Path, sizes: Mapping[str, int]) -> None:
    """Remove what does not belong there. Raises: TornError: a file is missing or has another size; OSError."""
    there = 0
    for folder, _, names in os.walk(top, onerror=_raise):
        below = "" if folder == str(top) else f"{os.path.relpath(folder, top)}/"
        for name in names:
            path, size = below + name, os.lstat(os.path.join(folder, name)).st_size
            wanted = sizes.get(path)
            if wanted is None:
                os.unlink(os.path.join(folder, name))
            elif size != wanted:
                raise TornError(f"{path} has {size} bytes of {wanted}")
            there += wanted is not None
    if there != len(sizes):
        missing = min((path for path in sizes if not os.path.lexists(top / path)), default="a file")
        raise TornError(f"{missing} is missing")


def commit(
    durable: Path, into: str, name: str, text: Iterable[str], sizes: Mapping[str, int], lease: Path, generation: str
) -> None:
    """Publish what lies in `into` under `name`, with the manifest's text, in pieces. The lease is looked at last.

    Raises: LeaseLostError, TornError, OSError: nothing is published then, except when only the last flush failed.
    """
    top = durable / into
    if not os.path.lexists(top):
        if is_published(durable / name, "".join(text)):
            return
        raise TornError(f"{into} is not there any more")
    settle_files(top, sizes)
    _sync_folders(top)
    new = top / f"{MANIFEST}.new"
    with new.open("w") as file:
        file.writelines(text)
        file.flush()
        os.fsync(file.fileno())
    check_lease(lease, generation)
    new.rename(top / MANIFEST)
    _sync(top)
    _replace(durable, into, name)


def is_published(checkpoint: Path, text: str) -> bool:
    """Is it there as the manifest says? Who was killed behind its rename has not told anybody."""
    try:
        there, wanted = manifest.read(checkpoint), manifest.parse(text)
    except (manifest.ManifestError, FileNotFoundError):
        return False
    of_launch = [(one.job, one.restart, one.attempt, one.step) for one in (there, wanted)]
    return of_launch[0] == of_launch[1] and set(there.list) == set(wanted.list)


def _replace(durable: Path, into: str, name: str) -> None:
    """Between its two renames `into` is whole: `repair` ends what was cut off there."""
    trash = durable / f".trash-{name}"
    if os.path.lexists(durable / name):
        shutil.rmtree(trash, ignore_errors=True)
        (durable / name).rename(trash)
    (durable / into).rename(durable / name)
    _sync(durable)
    shutil.rmtree(trash, ignore_errors=True)


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _sync_folders(top: Path) -> None:
    for folder, _, _ in os.walk(top, onerror=_raise):
        _sync(Path(folder))


def repair(durable: Path, lease: Path, generation: str) -> None:
    """As the run's owner: publish what was cut off between its manifest and its name; remove what others left half.

    Raises: LeaseLostError, OSError.
    """
    check_lease(lease, generation)
    for path in sorted(durable.glob(".incoming-*")):
        whole = re.fullmatch(r"\.incoming-(.+)\.([0-9]{6})\.[0-9]+", path.name)
        if whole and (path / MANIFEST).exists() and not os.path.lexists(durable / whole[1]):
            path.rename(durable / whole[1])
        elif not whole or whole[2] != generation:
            shutil.rmtree(path, ignore_errors=True)
    for path in durable.glob(".trash-*"):
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
    trash.sweep(durable, time.time())
