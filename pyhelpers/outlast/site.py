"""A site: one folder of facts about a machine, sites/SITE/, or one like it from outside the tree."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from outlast import pattern, schema, toml, tree
from outlast.refused import Refused, nearest


@dataclass(frozen=True)
class Bin:
    """A queue's limit for jobs of up to max_nodes nodes."""

    max_nodes: int
    walltime_s: int


@dataclass(frozen=True)
class Queue:
    """What a queue takes; 0 and an empty list mean that no limit is known."""

    partition: str = ""  # PBS: the queue
    qos: str = ""
    chain: bool = True  # may a job here submit its successor?
    min_nodes: int = 0
    max_nodes: int = 0
    walltime_s: int = 0  # for any number of nodes, where there are no bins
    bins: tuple[Bin, ...] = ()  # smallest first; the first that fits counts


# What preflight asks a node (lib/nodecheck.sh has a function for each but the first).
CHECKS = (
    "answer",
    *("gpu_count", "gpu_model", "gpu_driver", "gpu_ecc", "gpu_remap", "gpu_xid", "gpu_memory", "gpu_process"),
    *("gpu_clock", "interface", "route", "local_disk", "shared_fs", "memory", "clock", "modules"),
)


@dataclass(frozen=True)
class Node:
    """What a healthy node has; 0 and empty: not known, so nodes are only compared with each other."""

    gpus: int = 0  # devices that the kernel shows
    gpu_tool: str = schema.choice("", "rocm-smi", "amd-smi", "nvidia-smi", "xpu-smi")
    gpu_model: str = ""
    interfaces: tuple[str, ...] = ()
    memory_gib: int = 0
    local_fs: str = ""
    local_gib: int = 0
    skip: tuple[str, ...] = ()
    unknown: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Site:
    """sites/SITE/site.toml, key by key; docs/site-file.md explains them."""

    name: str
    scheduler: str
    summary: str
    runs_dir: str
    local_dir: str
    ranks_per_node: int
    queue: str
    queues: dict[str, Queue]
    any_queue: bool = False  # take queues that are not listed, as partitions without known limits
    hosts: tuple[str, ...] = ()
    host_variable: str = ""  # NAME=VALUE that the site itself sets on all its machines
    account_required: bool = False
    gpus_per_node: int = 0
    gpu_arch: str = ""
    cores_per_node: int = 0
    local_is_disk: bool = False  # else local_dir is the node's memory: too small for checkpoints
    directives: tuple[str, ...] = ()
    select: str = ""  # PBS: what each node must have besides, such as "system=polaris"
    place: str = "scatter"  # PBS
    filesystems: tuple[str, ...] = ()  # PBS: those that the job can't do without
    launcher: str = schema.choice("own", "pals", "mpich-ssh", "mpich-tmrsh")  # own: Slurm's srun
    launch: tuple[str, ...] = ()
    master_suffix: str = ""  # with it a node's short name is its name on the fast network
    net_interfaces: tuple[str, ...] = ()
    mail_command: str = ""
    internet: bool = False  # do compute nodes reach it without a proxy?
    proxy: str = ""  # the way from a compute node to the internet
    no_proxy: str = ""
    node: Node = field(default_factory=Node)


def outside(typed: Sequence[Path], env: Mapping[str, str]) -> tuple[Path, ...]:
    """Folders of sites beside the tree's own: those typed (--site-dir), then those of OUTLAST_SITES that are there.

    Raises: Refused: a folder that was typed holds no site.
    """
    for folder in typed:
        if (folder / "site.toml").is_file():
            raise Refused(f"--site-dir {folder} is a site; type the folder that it lies in")
        if not any(folder.glob("*/site.toml")):
            raise Refused(f"--site-dir {folder} has no SITE/site.toml")
    # As with PATH, a folder that is not there holds nothing.
    known = [Path(text).expanduser() for text in env.get("OUTLAST_SITES", "").split(":") if text]
    return tuple(path.absolute() for path in [*typed, *known] if path.is_dir())


def folders(root: Path, outside: Sequence[Path] = ()) -> list[Path]:
    """Where sites are looked for: of two with the same name the first wins, whole."""
    return [*outside, root / "sites"]


def names(root: Path, outside: Sequence[Path] = ()) -> list[str]:
    """All sites, sorted."""
    return sorted({path.parent.name for folder in folders(root, outside) for path in folder.glob("*/site.toml")})


def home(root: Path, name: str, outside: Sequence[Path] = ()) -> Path:
    """The folder of a site.

    Raises: Refused: no such site (with the nearest).
    """
    for folder in folders(root, outside):
        if "/" not in name and (folder / name / "site.toml").is_file():
            return folder / name
    raise Refused(f"no site {name}{nearest(name, names(root, outside))}")


def jobs(root: Path, site: str, outside: Sequence[Path] = ()) -> list[str]:
    """The jobs of a site, sorted.

    Raises: Refused: as home.
    """
    return jobs_in(home(root, site, outside))


def jobs_in(folder: Path) -> list[str]:
    """The jobs in the folder of a site, sorted."""
    return sorted(path.stem for path in folder.glob("*.toml") if path.name != "site.toml")


def load(root: Path, name: str, outside: Sequence[Path] = ()) -> Site:
    """The facts of a site.

    Raises: Refused: as home, or its file is wrong.
    """
    file = home(root, name, outside) / "site.toml"
    where = tree.short(root, file)
    site: Site = schema.record(Site, toml.read(file, where), where)
    if site.name != name:
        raise Refused(f"{where}: name is {site.name!r}, and the folder is {name}")
    if site.queue not in site.queues:
        raise Refused(f"{where}: queue is {site.queue!r}, not one of its queues ({', '.join(site.queues)})")
    if (site.scheduler == "pbs") == (site.launcher == "own"):
        raise Refused(f"{where}: scheduler {site.scheduler!r} does not go with launcher {site.launcher!r}")
    _check_node(site.node, where)
    return site


def _check_node(node: Node, where: str) -> None:
    pattern.check(f"{where}: node.gpu_model", node.gpu_model)
    pattern.check(f"{where}: node.local_fs", node.local_fs)
    check_names(f"{where}: node.skip", node.skip)
    for name, rule in node.unknown.items():
        if name != "hangs":
            check_names(f"{where}: node.unknown", (name,))
        if rule not in ("pass", "bad", "hold"):
            raise Refused(f"{where}: node.unknown.{name} is one of pass, bad, hold, not {rule!r}")
    for name in node.interfaces:
        if not re.fullmatch(r"[A-Za-z0-9_.-]+(/[0-9]+)?", name):
            raise Refused(f"{where}: node.interfaces has {name!r}; it takes names such as hsn0, ib0, mlx5_0, mlx5_0/1")


def check_names(key: str, names: Sequence[str]) -> None:
    """Nothing, if all are checks of preflight.

    Raises: Refused: one is not (with the nearest).
    """
    for name in names:
        if name not in CHECKS:
            raise Refused(f"{key} has {name!r}{nearest(name, list(CHECKS))}")


def as_job(site: Site) -> schema.Flat:
    """What a site says about a job that doesn't say it itself."""
    keys = ("runs_dir", "ranks_per_node", "queue", "select", "filesystems")
    return {key: getattr(site, key) for key in keys}
