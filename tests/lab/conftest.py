"""Each scenario has a lab of its own; one that fails shows the ledger, the logs and the queue."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import pytest
from harness import Lab, LabError, running


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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    lab = getattr(item, "funcargs", {}).get("lab")
    if report.when == "call" and report.failed and isinstance(lab, Lab):
        try:
            report.sections.extend(lab.evidence().items())
        except (LabError, OSError) as err:
            report.sections.append(("evidence", str(err)))
    return report
