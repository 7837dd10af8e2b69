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


def check(site: Site, name: str, nodes: int, walltime_s: int, chain: bool, spares: int = 0) -> None:
    """Nothing, if the queue takes a job of so many nodes, of which so many are spares.

    Raises: Refused: it doesn't; the message names a queue that does, or what to change.
    """
    why = refusal(find(site, name), nodes, walltime_s, chain)
    if why is None:
        return
    raise Refused(f"{site.name}'s queue {name} {why}; {_advice(site, name, nodes, walltime_s, chain, spares)}")


def _advice(site: Site, name: str, nodes: int, walltime_s: int, chain: bool, spares: int) -> str:
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
        return _another_number(find(site, name), nodes, walltime_s, spares)
    best = name if name in times else max(times, key=lambda other: times[other])
    return f"type {'' if best == name else f'--queue {best} '}--walltime {clock(times[best])}"


def _another_number(queue: Queue, nodes: int, walltime_s: int, spares: int) -> str:
    """What to type for a queue that takes more nodes, or fewer, where no other one takes so many."""
    top = most_nodes(queue)
    wanted = max(nodes, queue.min_nodes) if top is None else min(max(nodes, queue.min_nodes), top)
    longest = most_s(queue, wanted)
    words = [f"--nodes {wanted - spares}"] if wanted > spares else [f"--nodes {wanted}", "--set spares=0"]
    words += [f"--walltime {clock(longest)}"] if longest is not None and walltime_s > longest else []
    words += [] if queue.chain else ["--set chain=false"]
    on_top = f" ({spares} spare{'s'[: spares != 1]} on top)" if 0 < spares < wanted else ""
    return f"no other queue takes so {'many' if nodes > wanted else 'few'}; type {' '.join(words)}{on_top}"
