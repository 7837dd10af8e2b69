"""Several hosts on this machine, for tests of the sidecar: a folder each, an agent each, one coordinator."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from soak_trainer import metadata_of

from outlast.sidecar import agent, disk

ROOT = Path(__file__).parents[2]
GENERATION = "000001"


def wait_for(look: Callable[[], object], what: str, limit_s: float = 80) -> None:
    """Return as soon as `look` is true; fail if it never is."""
    until = time.monotonic() + limit_s
    while not look():
        assert time.monotonic() < until, f"waited {limit_s} s in vain for {what}"
        time.sleep(0.02)


class Cluster:
    """`hosts` with a folder each; the run's folder is `run`. Nothing runs before `start`."""

    def __init__(self, root: Path, hosts: int = 1, run: Path | None = None, **settings: object) -> None:
        self.root = root
        self.hosts = [f"h{number}" for number in range(hosts)]
        self.run = run or root / "lake/demo"
        self.state = root / "h0/state"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.said: list[list[str]] = []
        self.settings = {
            "CKPT_PREFIX": "step-",
            "CKPT_COMPLETE": ".metadata" if hosts > 1 else "last.json",
            "CKPT_QUIET_S": 0,
            "CKPT_KEEP": 3,
            "CKPT_KEEP_BEST": 1,
            "CKPT_KEEP_EVERY": 0,
            "CKPT_GRACE_S": 3600,
            "SHARDED": int(hosts > 1),
            "VERSION": "1.0",
            "RANKS_PER_NODE": 1,
            "SIDECAR_S": 0.1,
            "POLL_S": 60,
            "CKPT_WRITERS": 16,
            "CKPT_MEMORY_GIB": 0,
            "CKPT_MIB_PER_S": 0,
        } | settings
        for name in ("checkpoints", "quarantine", "lease", "logs"):
            (self.run / name).mkdir(parents=True, exist_ok=True)
        (self.run / "lease" / GENERATION).write_text("job=7 restart=0 host=h0\n")
        for host in self.hosts:
            (root / host / "checkpoints").mkdir(parents=True)
        self.state.mkdir()
        self.launch(1)

    # ── processes ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def env(self) -> dict[str, str]:
        (self.state / "sidecar_hosts").write_text("".join(f"{host}\n" for host in self.hosts))
        fixed = {
            "STATE": self.state,
            "LOCAL": self.root / "h0",
            "RUN_DIR": self.run,
            "CKPT_DIR": self.folder("h0"),
            "RUN": "demo",
            "JOB_ID": "7",
            "RESTART": 0,
            "GENERATION": GENERATION,
            "AGENT_TOKEN": "secret",
            "SIDECAR_PID": os.getpid(),
        }
        env = {f"OUTLAST_{name}": str(value) for name, value in (fixed | self.settings).items()}
        return env | {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "pyhelpers"), "PYTHONDONTWRITEBYTECODE": "1"}

    def start(self, *hosts: str) -> None:
        """The coordinator and the agents of all hosts, or those of these."""
        for host in hosts or self.hosts:
            if host == "h0":
                self.start_coordinator()
            else:
                self.start_agent(host)

    def start_coordinator(self) -> None:
        self.kill("h0")
        process = subprocess.Popen(
            [sys.executable, "-m", "outlast", "sidecar"],
            env=self.env(),
            stdout=subprocess.PIPE,
            stderr=(self.root / "coordinator.err").open("ab"),
        )
        self.processes["h0"] = process
        threading.Thread(target=self._listen, args=(process,), daemon=True).start()

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            words = line.decode().rstrip("\n").split("\t")
            self.said.append(words)
            if words[0] == "drained":
                (self.state / "drain_done").write_text(words[1] + "\n")

    def start_agent(self, host: str) -> None:
        self.kill(host)
        wait_for((self.state / "sidecar_port").exists, "the coordinator's port")
        port = (self.state / "sidecar_port").read_text().strip()
        local = self.root / host
        words = ["127.0.0.1", port, host, str(local), str(self.folder(host)), "step-", str(self.run / "checkpoints")]
        self.processes[host] = subprocess.Popen(
            [sys.executable, "-I", agent.__file__, *words],
            env={"PATH": os.environ["PATH"], "OUTLAST_AGENT_TOKEN": "secret"},
            stderr=(self.root / f"{host}.err").open("ab"),
        )

    def kill(self, host: str) -> None:
        """As kill -9 does; with the coordinator goes its own agent."""
        process = self.processes.pop(host, None)
        if process is not None:
            process.send_signal(signal.SIGKILL)
            process.wait()

    def kill_own_agent(self) -> None:
        """That of the coordinator."""
        found = subprocess.run(["pgrep", "-P", str(self.processes["h0"].pid)], capture_output=True, text=True)
        for pid in found.stdout.split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)

    def stop(self) -> None:
        for host in list(self.processes):
            self.kill(host)

    # ── the job ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def launch(self, attempt: int) -> None:
        (self.state / "drain_wanted").unlink(missing_ok=True)
        (self.state / "drain_done").unlink(missing_ok=True)
        (self.state / "attempt").write_text(f"{attempt} {','.join(self.hosts)}\nstep-10\n")
        (self.state / "ranks").write_text("running\n")

    def end(self, code: int = 0) -> None:
        """The ranks have ended."""
        (self.state / "ranks").write_text(f"ended {int(time.time())} {code}\n")

    def drain(self, limit_s: float = 80) -> None:
        token = f"{time.time()}"
        (self.state / "drain_wanted").write_text(token + "\n")
        done = self.state / "drain_done"
        wait_for(lambda: done.exists() and done.read_text().strip() == token, "the end of the drain", limit_s)

    # ── checkpoints ───────────────────────────────────────────────────────────────────────────────────────────────────

    def folder(self, host: str) -> Path:
        return self.root / host / "checkpoints"

    def save(self, step: int, size: int = 100_000, seed: int = 0, host: str = "h0") -> dict[str, bytes]:
        """A checkpoint of one writer; its content by path."""
        content = {"model.bin": data(size, step, seed), "sub/small.json": b"{}", "last.json": b"%d" % step}
        write(self.folder(host) / f"step-{step}", content)
        return content

    def save_sharded(self, step: int, size: int = 100_000, torn: str = "", index: bool = True) -> dict[str, bytes]:
        """One of all hosts, as torch.distributed.checkpoint lays it out; `torn` has not written its part."""
        names = [f"__{rank}_{part}.distcp" for rank in range(len(self.hosts)) for part in range(2)]
        content = {}
        for rank, host in enumerate(self.hosts):
            mine = {name: data(size, step, rank) for name in names if name.startswith(f"__{rank}_")}
            if host != torn:
                write(self.folder(host) / f"step-{step}", mine)
            content |= mine
        metadata = metadata_of({name: len(content[name]) for name in names})
        if index:
            write(self.folder("h0") / f"step-{step}", {".metadata": metadata})
        return content | {".metadata": metadata}

    def durable_steps(self) -> list[int]:
        paths = (self.run / "checkpoints").glob("step-*/MANIFEST.json")
        return sorted(int(path.parent.name.removeprefix("step-")) for path in paths)

    def wait_durable(self, step: int, limit_s: float = 80) -> None:
        wait_for(lambda: step in self.durable_steps(), f"step {step} to be durable", limit_s)

    def events(self, name: str) -> list[list[str]]:
        return [words[2:] for words in self.said if words[:2] == ["event", name]]

    def assert_holds(self, step: int, content: dict[str, bytes]) -> None:
        """The durable checkpoint has these files with this content, and no others."""
        top = self.run / f"checkpoints/step-{step}"
        found = {str(path.relative_to(top)): path.read_bytes() for path in top.rglob("*") if path.is_file()}
        del found["MANIFEST.json"]
        assert found.keys() == content.keys()
        assert all(found[path] == content[path] for path in content)
        verify(top)


def data(size: int, step: int, seed: int) -> bytes:
    return random.Random(step * 1000 + seed).randbytes(size)


def write(folder: Path, content: dict[str, bytes]) -> None:
    for path, text in content.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(text)


def verify(top: Path) -> int:
    """The step of a durable checkpoint, all of whose files are as its manifest says. Fails otherwise."""
    text = (top / "MANIFEST.json").read_text()
    manifest = json.loads(text)
    head = re.match(r'.*"files":([0-9]+),"bytes":([0-9]+)', text.splitlines()[0])
    assert head, "Bash reads the first line"
    files = {str(path.relative_to(top)) for path in top.rglob("*") if path.is_file()} - {"MANIFEST.json"}
    assert files == {row["path"] for row in manifest["list"]}
    assert int(head[1]) == len(files)
    for row in manifest["list"]:
        content = (top / row["path"]).read_bytes()
        made = disk.new_hash(manifest["algorithm"])
        made.update(content)
        assert (len(content), made.hexdigest()) == (row["bytes"], row["hash"]), row["path"]
    assert int(head[2]) == sum(row["bytes"] for row in manifest["list"])
    return int(manifest["step"])
