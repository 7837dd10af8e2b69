"""How many nodes stand by, where the job file does not say it."""

from pathlib import Path

import pytest
import trees

from outlast import commands, site, spares


@pytest.fixture
def lake(tmp_path: Path) -> site.Site:
    return site.load(trees.make(tmp_path), "lake")


@pytest.mark.parametrize(("nodes", "count"), [(1, 0), (7, 0), (8, 1), (50, 1), (99, 1), (100, 2), (149, 2), (180, 3)])
def test_two_per_cent_and_one_at_least_from_8_nodes_on(lake: site.Site, nodes: int, count: int) -> None:
    assert spares.usual(lake, "batch", nodes, 3600, True) == (count, "")


@pytest.mark.parametrize(
    ("name", "nodes", "why"),
    [("batch", 183, "batch takes up to 183 nodes, not 186"), ("extended", 64, "extended takes up to 64 nodes, not 65")],
)
def test_none_where_the_queue_does_not_take_them_and_a_line_says_so(
    lake: site.Site, name: str, nodes: int, why: str
) -> None:
    count, remark = spares.usual(lake, name, nodes, 3600, True)
    assert count == 0
    assert remark.startswith(f"no spare nodes: lake's queue {why}")


def test_a_job_that_is_refused_anyhow_and_an_unknown_queue_are_others_business(lake: site.Site) -> None:
    assert spares.usual(lake, "extended", 65, 3600, True) == (0, "")
    assert spares.usual(lake, "extendd", 65, 3600, True) == (0, "")


@pytest.mark.parametrize(("typed", "count"), [({}, 1), ({"spares": 0}, 0), ({"spares": 3}, 3)])
def test_a_number_that_somebody_has_set_always_counts(tmp_path: Path, typed: dict[str, int], count: int) -> None:
    root = trees.make(tmp_path, job=trees.JOB.replace("nodes = 4", "nodes = 8"))
    plan = trees.plan(root, *(f"{key}={value}" for key, value in typed.items()))
    assert (plan.job.spares, plan.remark) == (count, "")
    assert plan.origins["spares"] == ("command line" if typed else spares.WHY)


def test_render_says_it_on_stderr_and_the_script_is_whole(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["render", "aurora", "1b-16n", "--account", "A"]
    assert commands.main(words) == 0
    told = capsys.readouterr()
    assert "#PBS -l select=16\n" in told.out
    assert told.err == (
        "render: no spare nodes: aurora's queue capacity takes up to 16 nodes, not 17;"
        " type --set spares=0 to silence this\n"
    )
    assert commands.main([*words, "--set", "spares=0"]) == 0
    assert capsys.readouterr().err == ""
