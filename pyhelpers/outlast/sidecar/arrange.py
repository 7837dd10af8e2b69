"""Before a launch, on one node: its folder of checkpoints shows the chosen one, and no other.

It runs with disk.py beside it, brought to the node, on whatever Python 3.6 or newer is there, and imports nothing
else of outlast. Either of

    arrange HOST SOURCE FOLDER PREFIX BRING RANKS_PER_NODE checked|unchecked HOSTS...
    check   HOST SOURCE PATH

HOST is this one, SOURCE a durable checkpoint, HOSTS are those of the launch in the order of ranks, with commas
between, in as many words as they need: one may have 128 KiB. What the folder has of it already stays, if its hash is
right; BRING says what else is copied (docs/checkpoints.md), and the rest are links.
It prints a line for lib/stage.sh, words separated by tabs, and exits with the status behind it:

    arranged HOST KEPT COPIED LINKED   0    so many files
    good     HOST PATH                 0
    bad      HOST PATH WHY             3    a file of the durable one is not what its manifest says
    failed   HOST WHY                  1
                                       4    this Python has not the manifest's hash; `unchecked` goes on without
"""

import json
import os
import re
import shutil
import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, List, NamedTuple, Set, Tuple

if __name__ == "__main__":  # -I has left out the folder that holds outlast
    sys.path.insert(0, os.path.abspath(__file__).rsplit(os.sep, 3)[0])

from outlast.sidecar import disk

ARRIVING = ".arriving"  # not a checkpoint's name, so out of the trainer's sight
UNUSED = ".unused"
THREADS = 4
COMMON = 64 << 20  # bytes; a file of no rank that is smaller is read by all of them
RANK = re.compile(r"(?:.*/)?(?:__([0-9]+)_[0-9]+\.distcp|__([0-9]+)\.metadata|rng_state_([0-9]+)\.pth)")

Item = NamedTuple("Item", [("path", str), ("size", int), ("hash", str)])


class BadError(Exception):
    """The durable checkpoint is not what its manifest says: path, why."""


class NoHashError(Exception):
    """This Python has not the hash."""


class Source:
    """The durable checkpoint and its manifest."""

    def __init__(self, top: str) -> None:
        self.top = top
        self.name = os.path.basename(top)
        with open(os.path.join(top, disk.MANIFEST), "rb") as file:
            self.text = file.read()
        try:
            told = json.loads(self.text.decode("utf-8", "surrogateescape"))
            self.algorithm = str(told.get("algorithm", ""))
            self.items = [Item(str(r["path"]), int(r["bytes"]), str(r.get("hash", ""))) for r in told["list"]]
        except (ValueError, KeyError, TypeError, AttributeError) as err:
            raise BadError(disk.MANIFEST, "cannot be read: {}".format(err))
        for item in self.items:
            if not disk.is_inside(item.path):
                raise BadError(disk.MANIFEST, "names a path outside")
        # What the trainer wrote as a file lies in a folder of its name.
        self.is_file = [item.path for item in self.items] == [self.name]

    def path(self, item: Item) -> str:
        """Where a file of it is."""
        return os.path.join(self.top, item.path)


def new_hash(source: Source) -> Any:
    """A hash object. Raises: NoHashError."""
    try:
        return disk.new_hash(source.algorithm)
    except ValueError:
        raise NoHashError


def has(path: str, item: Item, source: Source) -> bool:
    """Is that file, on this node's own disk, the one that the manifest means? Without a hash nobody knows."""
    try:
        info = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    if not stat.S_ISREG(info.st_mode) or info.st_size != item.size or not item.hash:
        return False
    return digest_of(path, new_hash(source)) == item.hash


def digest_of(path: str, digest: Any) -> str:
    """The hash of a file, in hex. Raises: OSError."""
    room = disk.pages()
    with open(path, "rb", buffering=0) as file:
        while True:
            count = disk.read_full(file.fileno(), room)
            if not count:
                return str(digest.hexdigest())
            digest.update(room[:count])


def problem_of(source: Source, item: Item) -> str:
    """What is wrong with a file of the durable checkpoint, in words; empty: nothing. Raises: OSError, NoHashError."""
    try:
        size = os.stat(source.path(item)).st_size
    except FileNotFoundError:
        return "is missing"
    if size != item.size:
        return "has {} bytes of {}".format(size, item.size)
    if item.hash and digest_of(source.path(item), new_hash(source)) != item.hash:
        return "has another hash"
    return ""


class Wish:
    """What a launch wants on this node's own disk."""

    def __init__(self, bring: str, host: str, hosts: List[str], ranks_per_node: str) -> None:
        self.bring = bring
        names = [name.partition(".")[0] for word in hosts for name in word.split(",")]
        self.number = names.index(host.partition(".")[0]) if host.partition(".")[0] in names else -1
        self.ranks_per_node = max(1, int(ranks_per_node))

    def wants(self, item: Item) -> bool:
        """Shall it be copied here?"""
        if self.bring == "own-shards":
            found = RANK.fullmatch(item.path)
            if found is None:
                return item.size <= COMMON
            rank = next(int(word) for word in found.groups() if word is not None)
            return rank // self.ranks_per_node == self.number
        return self.bring == "all" or (self.bring == "node0" and self.number == 0)


def clear(folder: str, prefix: str, name: str) -> None:
    """Out of the trainer's sight with all checkpoints but that one; the last is kept for a look."""
    os.makedirs(folder, exist_ok=True)
    for other, _ in disk.checkpoints(folder, prefix):
        if other != name:
            remove(os.path.join(folder, UNUSED))
            os.rename(os.path.join(folder, other), os.path.join(folder, UNUSED))


def remove(path: str) -> None:
    """Whatever it is, and not what a link leads to."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


def arrange(source: Source, folder: str, wish: Wish, unchecked: bool) -> Tuple[int, int, int]:
    """How many files were there, were copied, are links now.

    Raises: BadError, NoHashError, OSError: the folder shows no checkpoint then.
    """
    if source.algorithm and not unchecked:
        new_hash(source)
    shown, work = os.path.join(folder, source.name), os.path.join(folder, ARRIVING)
    if os.path.lexists(shown):
        remove(work)
        os.rename(shown, work)  # what a killed one of us has left is still there else

    def inside(item: Item) -> str:
        return work if source.is_file else os.path.join(work, item.path)

    kept = keep(source, work, inside, unchecked)
    wanted = [item for item in source.items if item.path not in kept and wish.wants(item)]
    if not kept and not wanted:
        remove(work)
        os.symlink(source.path(source.items[0]) if source.is_file else source.top, shown)
        return 0, 0, len(source.items)
    copy(source, wanted, inside, unchecked)
    there = kept.union(item.path for item in wanted)
    links = [item for item in source.items if item.path not in there]
    for item in links:
        os.makedirs(os.path.dirname(inside(item)), exist_ok=True)
        os.symlink(source.path(item), inside(item))
    if not source.is_file:
        with open(os.path.join(work, disk.MANIFEST), "wb") as file:
            file.write(source.text)
    os.rename(work, shown)
    return len(kept), len(wanted), len(links)


def keep(source: Source, work: str, inside: Callable[[Item], str], unchecked: bool) -> Set[str]:
    """The paths of what is there and right; all else that is there is removed."""
    if os.path.islink(work) or (os.path.lexists(work) and os.path.isdir(work) == source.is_file):
        remove(work)
    items = [] if unchecked else source.items
    with ThreadPoolExecutor(THREADS) as pool:
        are_right = list(pool.map(lambda item: has(inside(item), item, source), items))
    kept = {item.path for item, is_right in zip(items, are_right) if is_right}
    if source.is_file:
        if not kept:
            remove(work)
        return kept
    for top, folders, names in os.walk(work, topdown=False):
        for name in names + folders:
            path = os.path.join(top, name)
            if os.path.islink(path) or (name in names and os.path.relpath(path, work) not in kept):
                os.unlink(path)
    return kept


def copy(source: Source, items: List[Item], inside: Callable[[Item], str], unchecked: bool) -> None:
    """Copy files and look at their hashes as they pass. Raises: BadError, OSError."""
    for item in items:
        os.makedirs(os.path.dirname(inside(item)), exist_ok=True)

    copier = disk.Copier("blake2b" if unchecked or not source.algorithm else source.algorithm, lambda count: None)

    def one(item: Item) -> None:
        try:
            info = os.stat(source.path(item))
            alone = len(items) == 1
            digest = copier.copy(source.path(item), inside(item), item.size, info.st_mtime_ns, ahead=alone)
        except FileNotFoundError:
            raise BadError(item.path, "is missing")
        except disk.Changed:
            raise BadError(item.path, "has not its {} bytes".format(item.size))
        if item.hash and not unchecked and digest != item.hash:
            raise BadError(item.path, "has another hash")

    with ThreadPoolExecutor(THREADS) as pool:
        for _ in pool.map(one, sorted(items, key=lambda item: -item.size)):
            pass


def say(*words: object) -> None:
    """A line for lib/stage.sh."""
    text = "\t".join(re.sub(r"[\x00-\x1f\x7f]", " ", str(word)) for word in words)
    os.write(1, text.encode("utf-8", "replace")[:2000] + b"\n")


def main(words: List[str]) -> int:
    """As the module says."""
    verb, host, top, *rest = words
    try:
        if verb == "check":
            source = Source(top)
            problem = next((problem_of(source, item) for item in source.items if item.path == rest[0]), "")
            if problem:
                raise BadError(rest[0], problem)
            say("good", host, rest[0])
            return 0
        folder, prefix, bring, ranks_per_node, checked, *hosts = rest
        clear(folder, prefix, os.path.basename(top))
        wish = Wish(bring, host, hosts, ranks_per_node)
        say("arranged", host, *arrange(Source(top), folder, wish, checked == "unchecked"))
    except NoHashError:
        return 4
    except BadError as err:
        say("bad", host, *err.args)
        return 3
    except OSError as err:
        say("failed", host, err)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
