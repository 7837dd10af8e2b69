"""What a site's queues take."""

from outlast.refused import Refused, nearest
from outlast.site import Queue, Site


def clock(seconds: int) -> str:
    """H:MM:SS, as schedulers take it."""
    return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def most_s(queue: Queue, nodes: int) -> int | None:
    """The longest walltime that a queue gives so many nodes; None: no limit known."""
    for bound in queue.bins:
        if nodes <= bound.max_nodes:
            return bound.walltime_s
    return queue.walltime_s or None


def most_nodes(queue: Queue) -> int | None:
    """The most nodes that a queue takes; None: no limit known."""
    return queue.max_nodes or (queue.bins[-1].max_nodes if queue.bins else None)


def refusal(queue: Queue, nodes: int, walltime_s: int, chain: bool) -> str | None:
    """Why a queue doesn't take such a job, in words that follow the queue's name; None: it does."""
    if chain and not queue.chain:
        return "forbids jobs that submit their successor"
    if nodes < queue.min_nodes:
        return f"takes {queue.min_nodes} nodes or more, not {nodes}"
    top = most_nodes(queue)
    if top is not None and nodes > top:
        return f"takes up to {top} nodes, not {nodes}"
    longest = most_s(queue, nodes)
    if longest is not None and walltime_s > longest:
        return f"gives {nodes} node{'s'[: nodes != 1]} {clock(longest)}, not {clock(walltime_s)}"
    return None


def find(site: Site, name: str) -> Queue:
    """The queue of that name.

    Raises: Refused: the site has none (with the nearest), and doesn't take others.
    """
    if name in site.queues:
        return site.queues[name]
    if site.any_queue and name:
        return Queue(partition=name)
    raise Refused(f"{site.name} has no queue {name}{nearest(name, list(site.queues))}")


def check(site: Site, name: str, nodes: int, walltime_s: int, chain: bool) -> None:
    """Nothing, if the queue takes a job of so many nodes (spares included).

    Raises: Refused: it doesn't; the message names a queue that does, or what to change.
    """
    why = refusal(find(site, name), nodes, walltime_s, chain)
    if why is None:
        return
    raise Refused(f"{site.name}'s queue {name} {why}; {_advice(site, name, nodes, walltime_s, chain)}")


def _advice(site: Site, name: str, nodes: int, walltime_s: int, chain: bool) -> str:
    for other, queue in site.queues.items():
        if refusal(queue, nodes, walltime_s, chain) is None:
            return f"type --queue {other}"
    if refusal(find(site, name), nodes, walltime_s, chain=False) is None:
        return "type --set chain=false"
    times = {
        other: longest
        for other, queue in site.queues.items()
        if (longest := most_s(queue, nodes)) and refusal(queue, nodes, longest, chain) is None
    }
    if not times:
        return "no other queue takes so many; type another --nodes (spares count too)"
    best = name if name in times else max(times, key=lambda other: times[other])
    return f"type {'' if best == name else f'--queue {best} '}--walltime {clock(times[best])}"
