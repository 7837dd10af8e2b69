"""Which nodes a job that is about to be submitted leaves out."""

from datetime import date

from outlast import hostlist
from outlast.badnodes import book, store
from outlast.driver import Driver
from outlast.rundir import RunDir

MOST = 200  # nodes: with more the trouble is the site's, and a scheduler's list gets long


def hosts(run: RunDir, by: Driver, today: date) -> str:
    """The scheduler's list: what the run's job leaves out by itself, then the bad nodes, the worst first.

    Empty where there is nothing to add to the job's own list, or where no node can be left out. Names that the
    scheduler does not know are no part of it: for one of them it would refuse the job.

    Raises: Refused: the file can't be read, or the scheduler does not say which nodes it has.
    """
    bad = [one.host for one in book.worst(store.read(run.bad_nodes), today)]
    if not bad or not by.excludes():
        return ""
    wanted = dict.fromkeys([*hostlist.expand(run.setting("EXCLUDE")), *bad])
    return hostlist.compress(by.known(list(wanted))[:MOST])
