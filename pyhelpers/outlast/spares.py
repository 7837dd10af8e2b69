"""How many nodes a job asks for on top of those that train, where nobody has said it."""

from outlast import queue
from outlast.refused import Refused
from outlast.site import Site

# Below, one node more is an eighth of the price and more, for a failure that comes about once a month (docs/nodes.md).
FROM_NODES = 8
WHY = f"default: 2 % of the nodes from {FROM_NODES} on, one at least, if the queue takes them"


def usual(site: Site, name: str, nodes: int, walltime_s: int, chain: bool) -> tuple[int, str]:
    """How many spares, and a line for the user where a queue is why there are none.

    A job that the queue does not take without spares either is refused in its own words, elsewhere.
    """
    if nodes < FROM_NODES:
        return 0, ""
    count = max(1, nodes // 50)
    try:
        found = queue.find(site, name)
    except Refused:
        return 0, ""
    why = queue.refusal(found, nodes + count, walltime_s, chain)
    if why is None:
        return count, ""
    if queue.refusal(found, nodes, walltime_s, chain) is not None:
        return 0, ""
    return 0, f"no spare nodes: {site.name}'s queue {name} {why}; type --set spares=0 to silence this"
