"""A site: one folder of facts about a machine, sites/SITE/."""

from dataclasses import dataclass
from pathlib import Path

from outlast import schema, toml
from outlast.refused import Refused, nearest


@dataclass(frozen=True)
class Bin:
    """A queue's limit for jobs of up to max_nodes nodes."""

    max_nodes: int
    walltime_s: int


@dataclass(frozen=True)
class Queue:
    """What a queue takes; 0 and an empty list mean that no limit is known."""

    partition: str = ""
    qos: str = ""
    chain: bool = True  # may a job here submit its successor?
    min_nodes: int = 0
    max_nodes: int = 0
    walltime_s: int = 0  # for any number of nodes, where there are no bins
    bins: tuple[Bin, ...] = ()  # smallest first; the first that fits counts


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
    launch: tuple[str, ...] = ()
    net_interfaces: tuple[str, ...] = ()
    mail_command: str = ""
    proxy: str = ""  # the way from a compute node to the internet
    no_proxy: str = ""


def names(root: Path) -> list[str]:
    """The sites of this tree, sorted."""
    return sorted(path.parent.name for path in (root / "sites").glob("*/site.toml"))


def jobs(root: Path, site: str) -> list[str]:
    """The jobs of a site, sorted."""
    return sorted(path.stem for path in (root / "sites" / site).glob("*.toml") if path.name != "site.toml")


def load(root: Path, name: str) -> Site:
    """The facts of a site.

    Raises: Refused: no such site (with the nearest), or its file is wrong.
    """
    if name not in names(root):
        raise Refused(f"no site {name}{nearest(name, names(root))}")
    where = f"sites/{name}/site.toml"
    site: Site = schema.record(Site, toml.read(root / where, where), where)
    if site.name != name:
        raise Refused(f"{where}: name is {site.name!r}, and the folder is {name}")
    if site.queue not in site.queues:
        raise Refused(f"{where}: queue is {site.queue!r}, not one of its queues ({', '.join(site.queues)})")
    return site


def as_job(site: Site) -> schema.Flat:
    """What a site says about a job that doesn't say it itself."""
    return {"runs_dir": site.runs_dir, "ranks_per_node": site.ranks_per_node, "queue": site.queue}
