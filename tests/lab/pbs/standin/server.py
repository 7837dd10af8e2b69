"""pbs_server and the scheduler: runs on the head, knows all jobs and hosts."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from functools import partial
from typing import Any

from standin import chunks, conf, depends, life, mail, queues, times, watch, wire
from standin.book import DELETED, HELD, HELD_BY_DEPENDENCY, QUEUED, RERUNNING, STARTING, WAITING, Book, Job
from standin.codes import Code, Refused
from standin.pbs import Host, Pbs
from standin.wire import Line, Message

RESOURCES = {"ncpus", "mem", "vmem", "walltime", "cput", "select", "place", "nodes", "nodect", "mpiprocs", "ngpus"}
# Resources that belong into a select, and cannot stand beside one.
IN_CHUNKS = {"ncpus", "mem", "vmem", "mpiprocs", "ngpus"}
SIGNALS = {name.removeprefix("SIG"): int(number) for name, number in signal.Signals.__members__.items()}


class Server:
    """Each `do_` is a request; what it returns is the answer. `user` is who asks; root is the manager."""

    def __init__(self, pbs: Pbs) -> None:
        self.pbs = pbs
        self.book = pbs.book

    def handle(self, line: Line, message: Message) -> Message:
        act = getattr(self, f"do_{message.pop('op')}")
        with self.pbs.lock:
            try:
                answer: Message = act(**message) or {}
            except Refused as refused:
                answer = {"code": refused.code, "text": refused.text}
            self.pbs.changed()
        return answer

    # ── jobs come ─────────────────────────────────────────────────────────────────────────────────────────────

    def do_submit(
        self,
        user: str,
        host: str,
        attributes: dict[str, Any],
        resources: dict[str, str],
        environment: dict[str, str],
        script: str,
        argv: list[str],
        held: bool,
    ) -> Message:
        job = Job("", {}, environment, script, argv)
        job.attributes = {**attributes, **self._resources(resources)}
        queue = self.pbs.queues.accept(attributes.get("queue") or self.pbs.queues.default, job)
        job.environment["PBS_O_QUEUE"] = queue.name
        job.id = self.book.new_id()
        waits = held or "Execution_Time" in attributes
        if queue.is_route and not waits:  # what is held by its owner stays in the routing queue
            routed = self.pbs.queues.route(queue, job)
            if routed is None:
                # With a script it is accepted, and gone: not even the history knows it (ALCF; measured on OpenPBS).
                if argv:
                    raise Refused(Code.UNROUTABLE)
                return {"job": job.id}
            queue = routed
        self._complete(job, user, host, queue.name)
        self.book.jobs[job.id] = job
        if held:
            job.set(Hold_Types="u")
            job.move("H", HELD)
        elif queue.is_route:
            job.move("W", WAITING)  # its dependency counts only when it is routed (measured)
        elif job.get("depend"):
            depends.hold(self.pbs, job)
        elif job.get("Execution_Time"):
            job.move("W", WAITING)
        return {"job": job.id}

    def _resources(self, wanted: dict[str, str]) -> dict[str, Any]:
        for name in wanted:
            if name not in RESOURCES | self.pbs.queues.resources:
                raise Refused(Code.UNKNOWN_RESOURCE, f"Unknown resource Resource_List.{name}")
        if "walltime" in wanted and times.walltime_s(wanted["walltime"]) is None:
            raise Refused(Code.BAD_VALUE, "Illegal attribute or resource value Resource_List.walltime")
        if "nodes" in wanted:
            if "select" in wanted or "place" in wanted:
                raise Refused(6, "Cannot be used with select or place: nodes")
            wanted = {**wanted, "select": chunks.of_nodes(wanted["nodes"]), "place": "scatter"}
        if "place" in wanted and "select" not in wanted:
            raise Refused(7, 'Cannot have "place" without "select"')
        if "select" in wanted and "nodes" not in wanted and (both := IN_CHUNKS & set(wanted)):
            text = f'"-lresource=" cannot be used with "select" or "place", resource is: {both.pop()}'
            raise Refused(5, text)
        return self._with_defaults(wanted)

    @staticmethod
    def _with_defaults(wanted: dict[str, str]) -> dict[str, Any]:
        select = wanted.get("select", f"1:ncpus={wanted.get('ncpus', '1')}")
        place = wanted.get("place", "free" if "select" in wanted else "pack")
        found = chunks.parse(select)
        chunks.places(place)
        whole: dict[str, Any] = {name: value for name, value in wanted.items() if name not in ("select", "place")}
        whole.update(select=select, place=place, nodect=len(found), ncpus=sum(chunk.ncpus for chunk in found))
        if "walltime" in wanted:
            whole["walltime"] = times.walltime(times.walltime_s(wanted["walltime"]) or 0)
        if any("mpiprocs" in chunk.wants for chunk in found):
            whole["mpiprocs"] = sum(chunk.mpiprocs for chunk in found)
        return {f"Resource_List.{name}": value for name, value in whole.items()}

    def _complete(self, job: Job, user: str, host: str, queue: str) -> None:
        now = int(time.time())
        sequence = job.id.partition(".")[0]
        job.set(Job_Owner=f"{user}@{host}", queue=queue, server=conf.load().server, Checkpoint="u", Submit_Host=host)
        job.set(ctime=now, qtime=now, project="_pbs_project_default", Hold_Types="n")
        for attribute, letter in (("Output_Path", "o"), ("Error_Path", "e")):
            given = str(job.get(attribute))
            folder = job.environment.get("PBS_O_WORKDIR", "")
            path = given or f"{job.name}.{letter}{sequence}"
            job.set_one(attribute, f"{host}:{path if path.startswith('/') else f'{folder}/{path}'}")
        job.move("Q", QUEUED)

    # ── questions ─────────────────────────────────────────────────────────────────────────────────────────────

    def do_status(self, user: str, ids: list[str], history: bool) -> Message:
        """For each id its attributes or an error; without ids all jobs."""
        found: list[Message] = []
        for word in ids or list(self.book.jobs):
            try:
                job = self.book.find(word)
                if job.state == "F" and not history:
                    if not ids:
                        continue
                    text = "Job has finished, use -x or -H to obtain historical job information"
                    raise Refused(Code.FINISHED, text)
                found.append({"id": job.id, "attributes": self._shown(job)})
            except Refused as refused:
                found.append({"id": word, "code": refused.code, "text": refused.text})
        return {"jobs": found}

    @staticmethod
    def _shown(job: Job) -> dict[str, Any]:
        attributes = {**job.attributes, "Variable_List": job.environment}
        if job.alive and job.get("session_id") and "resources_used.cput" not in attributes:
            # MoM tells what is used now and then: up to two minutes late (facts §4).
            used = {
                "cpupercent": 0,
                "cput": "00:00:00",
                "mem": "0kb",
                "ncpus": job.get("Resource_List.ncpus"),
                "vmem": "0kb",
            }
            attributes.update({f"resources_used.{name}": value for name, value in used.items()})
            attributes["resources_used.walltime"] = "00:00:00"
        return attributes

    def do_hosts(self, user: str) -> Message:
        found = []
        for host in self.pbs.hosts.values():
            jobs = self.pbs.jobs_on(host.name)
            state = "job-exclusive" if jobs and host.up else host.state
            used = sum(int(job.get("Resource_List.ncpus")) // len(job.hosts) for job in jobs)
            found.append(
                {
                    "name": host.name,
                    "mom": conf.load().hosts[host.name],
                    "state": state,
                    "jobs": [job.id for job in jobs],
                    "used": used,
                    "comment": host.comment,
                    "since": host.since,
                }
            )
        return {"hosts": found}

    def do_queues(self, user: str) -> Message:
        return {"queues": {name: queue.settings for name, queue in self.pbs.queues.queues.items()}}

    def do_manage(self, user: str, line: str) -> None:
        """qmgr."""
        if user != "root":
            raise Refused(Code.UNAUTHORIZED)
        self.pbs.queues.set(line)

    # ── orders ────────────────────────────────────────────────────────────────────────────────────────────────

    def _mine(self, user: str, word: str) -> Job:
        job = self.book.unfinished(word)
        if user not in (job.owner, "root"):
            raise Refused(Code.UNAUTHORIZED)
        return job

    def do_delete(self, user: str, host: str, job_id: str, force: bool, erase: bool) -> None:
        """A running job ends, and then its children start; those of one that never ran do not (facts §1, 12)."""
        if erase and (job := self.book.find(job_id)).state == "F":
            del self.book.jobs[job.id]
            return
        job = self._mine(user, job_id)
        if job.state == "E":
            raise Refused(Code.BAD_STATE)
        job.deleted = not job.orphaned
        manager = user != job.owner
        if manager:
            mail.send(job, "a", f"Job to be deleted at request of {user}@{host}")
        if not job.alive:
            if job.get("comment"):
                job.set(comment=f"{job.get('comment')} and terminated")
            life.finish(self.pbs, job, None) if job.get("run_count") else self._never_ran(job)
            return
        if job.get("comment") and job.deleted and "and terminated" not in job.get("comment"):
            by = "" if force and manager else f" by {user}@{host}"
            job.set(comment=f"{job.get('comment')} and terminated{by}")
        if force:
            self.pbs.tell(job.hosts[0], partial(self._unless_known, job), op="kill", job=job.id)
            if manager:
                life.finish(self.pbs, job, 265)
        elif job.substate == STARTING and not job.get("session_id") and not job.orphaned:
            for name in job.hosts:
                self.pbs.tell(name, op="drop", job=job.id)
            life.finish(self.pbs, job, 271)
        else:
            delay_s = self.pbs.queues.get(job.get("queue")).kill_delay_s
            tell_end = partial(self._unless_known, job)
            self.pbs.tell(job.hosts[0], tell_end, op="terminate", job=job.id, delay_s=delay_s, rerun=False)

    def _unless_known(self, job: Job, answer: Message) -> None:
        """The first host has been rebooted, and will never tell how the job ended."""
        if not answer["known"]:
            life.finish(self.pbs, job, None)

    @staticmethod
    def _never_ran(job: Job) -> None:
        job.set(history_timestamp=int(time.time()))
        job.move("F", DELETED)

    def do_rerun(self, user: str, host: str, job_id: str) -> None:
        job = self.book.unfinished(job_id)
        if user != "root":
            raise Refused(Code.UNAUTHORIZED)
        if job.state != "R":
            raise Refused(Code.BAD_STATE)
        job.move("R", RERUNNING)
        delay_s = self.pbs.queues.get(job.get("queue")).kill_delay_s
        self.pbs.tell(job.hosts[0], op="terminate", job=job.id, delay_s=delay_s, rerun=True)

    def do_signal(self, user: str, host: str, job_id: str, name: str) -> None:
        """Facts §3."""
        job = self._mine(user, job_id)
        if name in ("suspend", "resume", "admin-suspend", "admin-resume"):
            raise Refused(Code.UNAUTHORIZED)
        number = int(name) if name.isdigit() else SIGNALS.get(name.removeprefix("SIG"), 0 if name == "NULL" else -1)
        if number < 0:
            raise Refused(Code.BAD_SIGNAL)
        if job.state != "R":
            raise Refused(Code.BAD_STATE)
        if number:
            self.pbs.tell(job.hosts[0], op="signal", job=job.id, number=number)

    def do_hold(self, user: str, host: str, job_id: str) -> None:
        job = self._mine(user, job_id)
        job.set(Hold_Types=depends.holds(job, also="u"), comment=f"Job held by {user} on {times.date(time.time())}")
        if job.state in "QW":
            job.move("H", HELD)

    def do_release(self, user: str, host: str, job_id: str) -> None:
        """qrls. The system's hold, as of a dependency, is not the user's: nothing happens (facts §7)."""
        job = self._mine(user, job_id)
        if "u" not in job.get("Hold_Types", ""):
            return
        job.set(Hold_Types=depends.holds(job, no_more="u"))
        if job.state == "H" and job.get("Hold_Types") == "n":
            job.move("Q", QUEUED)

    def do_alter(
        self,
        user: str,
        host: str,
        job_id: str,
        attributes: dict[str, Any],
        resources: dict[str, str],
        depend: str | None,
    ) -> None:
        """Facts §7, qalter."""
        job = self._mine(user, job_id)
        if job.alive:
            self._alter_running(job, user, attributes, resources, depend)
        else:
            self._alter_waiting(job, resources, depend)
        job.set(**attributes)
        if job.state == "Q" and job.get("Execution_Time", 0) > time.time():
            job.move("W", WAITING)

    def _alter_running(
        self, job: Job, user: str, attributes: dict[str, Any], resources: dict[str, str], depend: str | None
    ) -> None:
        fixed = [f"Resource_List.{name}" for name in resources if name != "walltime"]
        fixed += [name for name in attributes if name in ("umask", "Keep_Files")]
        fixed += ["depend"] if depend is not None else []
        if fixed:
            raise Refused(Code.RUNNING, f"Cannot modify attribute while job running  {fixed[0]}")
        if "walltime" not in resources:
            return
        new, old = times.walltime_s(resources["walltime"]), times.walltime_s(job.get("Resource_List.walltime", ""))
        if new is None:
            raise Refused(Code.BAD_VALUE, "Illegal attribute or resource value Resource_List.walltime")
        if user != "root" and (old is None or new > old):
            raise Refused(Code.UNAUTHORIZED)
        job.set_one("Resource_List.walltime", times.walltime(new))
        self.pbs.tell(job.hosts[0], op="change", job=job.id, attributes={"Resource_List.walltime": times.walltime(new)})

    def _alter_waiting(self, job: Job, resources: dict[str, str], depend: str | None) -> None:
        if resources:
            known = {
                name.partition(".")[2]: value
                for name, value in job.attributes.items()
                if name.startswith("Resource_List.")
            }
            kept = {name: str(value) for name, value in known.items() if name not in ("nodect", "ncpus", "mpiprocs")}
            job.attributes.update(self._resources({**kept, **resources}))
        if depend:
            job.set(depend=depend)
            depends.hold(self.pbs, job)
        elif job.substate == HELD_BY_DEPENDENCY and not job.get("depend"):
            job.move("Q", QUEUED)

    def do_release_hosts(self, user: str, host: str, job_id: str, names: list[str], everything: bool) -> None:
        """pbs_release_nodes (facts §6)."""
        job = self._mine(user, job_id)
        if job.state != "R" or job.substate == STARTING:
            raise Refused(Code.BAD_STATE)
        names = job.hosts[1:] if everything else [conf.short(name) for name in names]
        if job.hosts[0] in names:
            raise Refused(Code.NO_CONNECTION, f"Can't free '{job.hosts[0]}' since it's on a primary execution host ")
        if not names or not set(names) <= set(job.hosts):
            raise Refused(Code.NO_CONNECTION, "Server returned error 15010 for job ")
        self._shrink(job, names)

    def _shrink(self, job: Job, gone: list[str]) -> None:
        full = {conf.load().hosts[name] for name in gone}
        hosts = str(job.get("exec_host")).split("+")
        keeps = [word for word in hosts if word.partition("/")[0] not in gone]
        job.vnodes = [word for word in job.vnodes if word[1:].partition(":")[0] not in gone]
        job.hosts = [name for name in job.hosts if name not in gone]
        job.lines = [name for name in job.lines if name not in full]
        select = "+".join(f"1:{word.strip('()').partition(':')[2]}" for word in job.vnodes)
        job.set(exec_host="+".join(keeps), exec_vnode="+".join(job.vnodes))
        job.set(**{"Resource_List.select": select, "Resource_List.nodect": len(job.hosts)})
        ncpus = sum(chunk.ncpus for chunk in chunks.parse(select))
        job.set(**{"Resource_List.ncpus": ncpus})
        self.pbs.tell(job.hosts[0], op="shrink", job=job.id, gone=gone, record=life.record(job))

    # ── a MoM ─────────────────────────────────────────────────────────────────────────────────────────────────

    def do_obit(self, job: str, status: int, used_s: float, delivered: bool, host: str, broken: bool) -> None:
        found = self.book.jobs.get(job)
        # One that the server has given up, and started elsewhere, is not heard any more.
        if found and found.state == "R" and found.hosts and found.hosts[0] == host:
            life.ended(self.pbs, found, status, used_s, delivered, broken)


def _scheduler(pbs: Pbs) -> None:
    while True:
        pbs.wake.wait(timeout=0.5)
        pbs.wake.clear()
        with pbs.lock:
            life.schedule(pbs)


def main(_words: list[str]) -> None:
    """After a restart running jobs have lost their comments (facts §7)."""
    os.umask(0o022)
    settings = queues.read((conf.LAB / "qmgr").read_text())
    hosts = {name: Host(name) for name in conf.load().hosts}
    book = Book(conf.HOME / "server.json")
    pbs = Pbs(book, settings, hosts)
    for job in book.jobs.values():
        if job.state == "R" and job.substate == STARTING:
            job.orphaned = True
        elif job.alive:
            job.set(comment=None)
    for host in hosts.values():
        threading.Thread(target=watch.watch, args=(pbs, host, book.is_old), daemon=True).start()
    threading.Thread(target=_scheduler, args=(pbs,), daemon=True).start()
    socket.setdefaulttimeout(None)
    wire.serve(conf.SERVER_PORT, Server(pbs).handle)
