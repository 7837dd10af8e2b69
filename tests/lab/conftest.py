"""Each scenario has a lab of its own; one that fails shows the ledger, the logs and the queue."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import pytest
from harness import Lab, LabError, running
from pbs_cluster import Cluster, cluster
from pbs_lab import PbsLab, running_pbs


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--count", type=int, default=1, help="how often each scenario that races is played (make soak)")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "hosts(n): compute hosts of the scenario's lab, 4 unless said")
    config.addinivalue_line("markers", "race: two things meet in time, and their order is chance")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    count = metafunc.config.getoption("--count")
    if count > 1 and metafunc.definition.get_closest_marker("race"):
        metafunc.fixturenames.append("round")
        metafunc.parametrize("round", range(count))


@pytest.fixture
def lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    """A lab, up, with nothing in its queue."""
    marker = request.node.get_closest_marker("hosts")
    with running(marker.args[0] if marker else 4) as lab:
        yield lab


@pytest.fixture
def pbs_lab(request: pytest.FixtureRequest) -> Iterator[PbsLab]:
    """The same, with PBS."""
    marker = request.node.get_closest_marker("hosts")
    with running_pbs(marker.args[0] if marker else 4) as lab:
        yield lab


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
