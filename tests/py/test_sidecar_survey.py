"""When what the nodes have told is new enough, and what it is taken for."""

from __future__ import annotations

import base64
import time
from pathlib import Path

import pytest
from sidecar_cluster import Cluster
from soak_trainer import metadata_of

from outlast.sidecar import settings
from outlast.sidecar.coordinator import Coordinator
from outlast.sidecar.crew import Answer, View
from outlast.sidecar.judge import Entry, Rules, Verdict
from outlast.sidecar.settings import Ranks

METADATA = metadata_of({"__0_0.distcp": 10})


@pytest.fixture
def coordinator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Coordinator:
    """One that nobody has started; its only agent is there and has told of a sharded checkpoint."""
    cluster = Cluster(tmp_path, SHARDED=1, CKPT_COMPLETE=".metadata")
    found = Coordinator(settings.from_env({**cluster.env(), "OUTLAST_AGENT_TOKEN": "secret"}), "secret")
    monkeypatch.setattr(found.crew, "present", lambda: frozenset({"h0"}))
    files = found.crew.tables.listing([(".metadata", len(METADATA), 1), ("__0_0.distcp", 10, 1)])
    entry = Entry(20, files, 100.0, time.time(), files.number)
    found.crew.views["h0"] = View(looked_s=time.time(), entries={"step-20": entry})
    return found


def test_after_each_launch_and_for_each_drain_the_nodes_look_anew(coordinator: Coordinator) -> None:
    survey, view = coordinator.survey, coordinator.crew.views["h0"]
    ended = Ranks(known=True, ended_s=1000.0)  # all of them in the same second
    for attempt, drain in ((1, ""), (1, "first"), (2, "first"), (2, "second")):
        survey.begin(attempt)
        assert not survey.is_fresh(ended, drain)
        view.looked_s = time.time()
        assert survey.is_fresh(ended, drain)


Asked = list[tuple[Answer, Answer]]  # who gets the end, and the rows


@pytest.fixture
def asked(coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch) -> Asked:
    """The questions to the agent that are open."""
    found: Asked = []
    monkeypatch.setattr(coordinator.crew, "ask", lambda host, message, end, rows: found.append((end, rows)))
    return found


def verdict(coordinator: Coordinator) -> Verdict:
    rules = Rules(".metadata", 0.0, True, ("h0",), 1)
    return coordinator.survey.verdicts(Ranks(known=True, running=True), rules)[0]


def test_what_could_not_be_read_is_asked_for_again(coordinator: Coordinator, asked: Asked) -> None:
    verdict(coordinator)
    (end, _) = asked.pop()
    end("h0", {"error": "EIO"})
    assert verdict(coordinator).missing == (".metadata cannot be read: Input/output error",)
    verdict(coordinator)
    (end, rows) = asked.pop()
    rows("h0", {"data": base64.b64encode(METADATA).decode()})
    end("h0", {})
    assert verdict(coordinator).whole


def test_what_is_too_large_is_not(coordinator: Coordinator, asked: Asked) -> None:
    verdict(coordinator)
    (end, _) = asked.pop()
    end("h0", {"error": "EFBIG"})
    for _ in range(3):
        assert verdict(coordinator).missing == (".metadata cannot be read: File too large",)
    assert asked == []
