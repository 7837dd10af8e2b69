"""A job's life in the server: start, end, loss of a host, next try."""

from __future__ import annotations

import threading
import time
import uuid
from typing import Any

from standin import conf, depends, mail, placing, times
from standin.book import (
    DELETED,
    EXITING,
    FAILED,
    FINISHED,
    HELD,
    QUEUED,
    RERUN,
    RERUNNING,
    RUNNING,
    STARTING,
    Job,
)
from standin.conf import scaled
from standin.pbs import Pbs
from standin.placing import Room
from standin.queues import Queue

# Seconds. Source: facts §2, §6.
STARTING_S = 2.0  # but long enough to be seen: a second
EXITING_S = 0.5
REQUEUE_AFTER = 310.0  # the server's node_fail_requeue, after the host was seen to be down
TRIES = 21

WALLTIME, NODE_LOST, RERUN_STATUS, FIRST_HOST_LOST, NOT_STARTED = -29, -14, -11, -20, -30


def schedule(pbs: Pbs) -> None:
    """Starts what can start now, oldest first; the others are told why not."""
    for job in list(pbs.book.jobs.values()):
        if job.state == "W" and time.time() >= job.get("Execution_Time", 0):
            job.set(Execution_Time=None)
            job.move("Q", QUEUED)
        if job.state == "Q" and (queue := pbs.queues.get(job.get("queue"))).is_route:
            _route(pbs, job, queue)
        if job.state != "Q" or pbs.queues.get(job.get("queue")).settings.get("started", "True") != "True":
            continue
        placed = placing.place(job.get("Resource_List.select"), job.get("Resource_List.place"), rooms(pbs))
        if placed.why:
            if job.get("comment") != placed.why:
                job.set(comment=placed.why)
                pbs.book.save()
            continue
        start(pbs, job, placed)


def _route(pbs: Pbs, job: Job, queue: Queue) -> None:
    """A job that has waited in a routing queue; one that nobody takes is dropped now, and stays in the history."""
    found = pbs.queues.route(queue, job)
    if found is None:
        depends.drop(job, "Job rejected by all possible destinations")
        return
    job.set(queue=found.name)
    if job.get("depend"):
        depends.hold(pbs, job)


def rooms(pbs: Pbs) -> list[Room]:
    """Hosts are one job's alone, as at ALCF."""
    size = conf.load().ncpus
    return [Room(host.name, host.up, 0 if pbs.jobs_on(host.name) else size) for host in pbs.hosts.values()]


def start(pbs: Pbs, job: Job, placed: placing.Placed) -> None:
    """R/41, and the first host is asked to begin."""
    names = conf.load().hosts
    pairs = list(zip(placed.hosts, placed.chunks, strict=True))
    job.hosts = list(dict.fromkeys(placed.hosts))
    job.lines = [names[host] for host, chunk in pairs for _ in range(chunk.mpiprocs)]
    job.vnodes = [f"({host}:ncpus={chunk.ncpus})" for host, chunk in pairs]
    many = [f"{host}/0*{chunk.ncpus}" if chunk.ncpus > 1 else f"{host}/0" for host, chunk in pairs]
    now = time.time()
    where = "+".join(job.vnodes)
    when = time.strftime("%a %b %d at %H:%M", time.localtime(now))
    job.set(
        exec_host="+".join(many),
        exec_vnode=where,
        stime=int(now),
        comment=f"Job run at {when} on {where}",
        run_count=job.get("run_count", 0) + 1,
        session_id=None,
        Exit_status=None,
    )
    job.move("R", STARTING)
    pbs.tell(
        job.hosts[0], lambda answer: _started(pbs, job, run=job.get("run_count"), **answer), op="start", job=record(job)
    )
    pbs.book.save()


def record(job: Job) -> dict[str, Any]:
    """What a MoM must know of a job."""
    return {
        "id": job.id,
        "user": job.owner,
        "attributes": job.attributes,
        "environment": job.environment,
        "script": job.script,
        "argv": job.argv,
        "hosts": job.hosts,
        "lines": job.lines,
        "number": 0,
        "cookie": uuid.uuid4().hex.upper(),
    }


def _started(pbs: Pbs, job: Job, run: int, session: int = 0, refused: int | None = 0) -> None:
    if job.state != "R" or job.get("run_count") != run or refused is None:
        return
    if refused:
        # Without a place for its log a job is started and refused 21 times, then held (facts §1, 13).
        last = run >= TRIES
        why = "job held, too many failed attempts to run" if last else job.get("comment")
        job.set(Exit_status=refused, comment=why, exec_host=None, exec_vnode=None, Hold_Types="s" if last else "n")
        job.hosts = []
        job.move("H" if last else "Q", HELD if last else QUEUED)
        return
    depends.on_start(pbs, job)
    mail.send(job, "b", "Begun execution")
    job.set(session_id=session, jobdir=job.environment.get("PBS_O_HOME", ""))
    _later(pbs, max(STARTING_S, 1 / conf.load().scale), lambda: _runs(job), held_up_by="starts")


def _runs(job: Job) -> None:
    if job.state == "R" and job.substate == STARTING:
        job.move("R", RUNNING)


def _later(pbs: Pbs, seconds: float, act: Any, held_up_by: str = "") -> None:
    def wait() -> None:
        time.sleep(scaled(seconds))
        while held_up_by and conf.is_held_up(held_up_by):
            time.sleep(0.1)
        with pbs.lock:
            act()
            pbs.changed()

    threading.Thread(target=wait, daemon=True).start()


# ── end ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def ended(pbs: Pbs, job: Job, status: int, used_s: float, delivered: bool, broken: bool) -> None:
    """The first host says so. A job that is to run again goes back to its queue."""
    used = {
        "cpupercent": 0,
        "cput": "00:00:00",
        "mem": "0kb",
        "ncpus": job.get("Resource_List.ncpus", 1),
        "vmem": "0kb",
    }
    job.set(**{f"resources_used.{name}": value for name, value in used.items()})
    job.set(**{"resources_used.walltime": times.walltime(used_s)})
    again = status == RERUN_STATUS or (status == NODE_LOST and job.get("Rerunable") == "True")
    if again and not job.deleted:
        job.set(Exit_status=status)
        job.move("E", RERUNNING)
        _later(pbs, EXITING_S, lambda: job.move("E", RERUN))
        _later(pbs, 2 * EXITING_S, lambda: back_to_queue(job))
        return
    job.set(Exit_status=status, obittime=int(time.time()), Stageout_status=int(delivered))
    job.move("E", EXITING)
    _later(pbs, EXITING_S, lambda: finish(pbs, job, status, broken))


def back_to_queue(job: Job) -> None:
    """For its next run."""
    job.set(exec_host=None, exec_vnode=None, session_id=None)
    job.hosts = []
    job.orphaned = False
    job.move("Q", QUEUED)


def finish(pbs: Pbs, job: Job, status: int | None, broken: bool = False) -> None:
    """F, with the substate and the words that tell how (facts §2)."""
    if job.state == "F":
        return
    substate = DELETED if job.deleted else FINISHED if status == 0 and not broken else FAILED
    words = {WALLTIME: "and exceeded resource walltime", 0: "and finished"}.get(status or 0, "and failed")
    silent = job.deleted or status in (FIRST_HOST_LOST, NODE_LOST)
    # Without a comment, as after a restart of the server, none is made.
    if job.get("comment") and not silent:
        job.set(comment=f"{job.get('comment')} {words}")
    job.set(Exit_status=status, history_timestamp=int(time.time()))
    job.move("F", substate)
    if status == WALLTIME:
        mail.send(
            job, "a", "Aborted by PBS Server \nJob exceeded resource walltime\nSee job standard error file", always=True
        )
    mail.send(job, "e", f"Execution terminated\nExit_status={status}")
    depends.on_end(pbs, job)


# ── hosts ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def host_is_down(pbs: Pbs, name: str) -> None:
    """A job that was about to start there is taken back; one that has its script there, later (facts §6)."""
    for job in pbs.jobs_on(name):
        if job.substate == STARTING and not job.get("session_id"):
            if name == job.hosts[0] or str(job.get("tolerate_node_failures", "none")) == "none":
                _take_back(pbs, job, NOT_STARTED if len(job.hosts) > 1 else None)
        elif name == job.hosts[0]:
            run = job.get("run_count")
            _later(pbs, REQUEUE_AFTER, lambda job=job, run=run: _first_host_lost(pbs, job, name, run))


def _take_back(pbs: Pbs, job: Job, status: int | None) -> None:
    for host in job.hosts:
        pbs.tell(host, op="drop", job=job.id)
    job.set(Exit_status=status)
    back_to_queue(job)


def _first_host_lost(pbs: Pbs, job: Job, name: str, run: int) -> None:
    if job.state != "R" or job.get("run_count") != run or pbs.hosts[name].up:
        return
    for host in job.hosts:
        pbs.tell(host, op="drop", job=job.id)
    if job.get("Rerunable") == "True" and not job.deleted:
        job.set(Exit_status=FIRST_HOST_LOST)
        back_to_queue(job)
        return
    mail.send(job, "a", f"Aborted by PBS Server \nJob deleted, execution node {name} down")
    finish(pbs, job, FIRST_HOST_LOST)
