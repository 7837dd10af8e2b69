"""Each scenario has a lab of its own, and is played on each scheduler. One that fails shows ledger, logs and queue."""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
import torch_job
from harness import Lab, LabError, running
from pbs_cluster import IS_REAL, Cluster, cluster
from pbs_lab import PbsLab
from scenarios import ALL, is_by_hand, scheduler_of, why_not

KINDS: dict[str, type[Lab]] = {"slurm": Lab, "pbs": PbsLab}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--count", type=int, default=1, help="how often each scenario that races is played (make soak)")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "hosts(n): compute hosts of the scenario's lab, 4 unless said")
    config.addinivalue_line("markers", "only(scheduler, why): the scenario has no meaning on the other one")
    config.addinivalue_line("markers", "seldom: nothing in it is the scheduler's; on PBS's stand-in with ALL=1 only")
    config.addinivalue_line("markers", "extra: its like is played elsewhere, or it takes long; with ALL=1 only")
    config.addinivalue_line("markers", "torch: the scenario's hosts have a Python with torch (torch_job.py)")
    config.addinivalue_line("markers", "freezes: the scenario's shared file system can freeze")
    config.addinivalue_line("markers", "race: two things meet in time, and their order is chance")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "lab" in metafunc.fixturenames:
        metafunc.parametrize("lab", KINDS, indirect=True)
    count = metafunc.config.getoption("--count")
    if count > 1 and metafunc.definition.get_closest_marker("race"):
        metafunc.fixturenames.append("round")
        metafunc.parametrize("round", range(count))


def schedulers() -> set[str]:
    """Whose tests are played: all, unless a PBS or a Slurm was chosen."""
    if IS_REAL:
        return {"pbs"}
    return {"slurm"} if os.environ.get("SLURM", "system") != "system" else {*KINDS, "local"}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    config.stash[ALL] = list(items)
    wanted = schedulers()
    dropped = {item for item in items if scheduler_of(item) not in wanted or why_not(item)}
    if not (IS_REAL or os.environ.get("ALL")):
        dropped |= set(filter(is_by_hand, items))
    config.hook.pytest_deselected(items=list(dropped))
    items[:] = [item for item in items if item not in dropped]


def hosts(request: pytest.FixtureRequest) -> int:
    marker = request.node.get_closest_marker("hosts")
    return int(marker.args[0]) if marker else 4


@pytest.fixture
def lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    """A lab, up, with nothing in its queue."""
    see = torch_job.environment() if request.node.get_closest_marker("torch") else None
    freezes = request.node.get_closest_marker("freezes") is not None
    with running(hosts(request), kind=KINDS[request.param], see=see, freezes=freezes) as lab:
        yield lab
        keep_records(lab, request.node.name)


@pytest.fixture
def pbs_lab(request: pytest.FixtureRequest) -> Iterator[PbsLab]:
    """The same, for what only PBS has."""
    with running(hosts(request), kind=PbsLab) as lab:
        yield lab
        keep_records(lab, request.node.name)


def keep_records(lab: Lab, scenario: str) -> None:
    """What its endings were decided from (docs/classify.md), in the folder that OUTLAST_LAB_RECORDS names."""
    folder = os.environ.get("OUTLAST_LAB_RECORDS")
    for record in lab.on_disk(f"{lab.scratch}/outlast").glob("*/records/*") if folder else ():
        shutil.copytree(record, Path(str(folder)) / scenario / record.name, dirs_exist_ok=True)


@pytest.fixture(scope="session")
def shared_pbs() -> Iterator[Cluster]:
    with cluster() as found:
        yield found


@pytest.fixture
def pbs(shared_pbs: Cluster) -> Iterator[Cluster]:
    """A PBS with an empty queue and all its hosts; one for many tests."""
    yield shared_pbs
    shared_pbs.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    funcargs = getattr(item, "funcargs", {})
    lab = funcargs.get("lab") or funcargs.get("pbs_lab")
    if report.when == "call" and report.failed and isinstance(lab, Lab):
        try:
            report.sections.extend(lab.evidence().items())
        except (LabError, OSError) as err:
            report.sections.append(("evidence", str(err)))
    return report
