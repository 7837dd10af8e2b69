from pathlib import Path

import pytest
import trees

from outlast import queue, site, tree
from outlast.refused import Refused


@pytest.fixture
def lake(tmp_path: Path) -> site.Site:
    return site.load(trees.make(tmp_path), "lake")


@pytest.mark.parametrize(
    ("name", "nodes", "walltime_s"),
    [("batch", 91, 7200), ("batch", 92, 21600), ("batch", 183, 21600), ("extended", 64, 86400)],
)
def test_check_takes_what_just_fits(lake: site.Site, name: str, nodes: int, walltime_s: int) -> None:
    queue.check(lake, name, nodes, walltime_s, chain=True)


@pytest.mark.parametrize(
    ("name", "nodes", "walltime_s", "message"),
    [
        ("batch", 91, 7201, "batch gives 91 nodes 2:00:00, not 2:00:01; type --walltime 2:00:00"),
        ("batch", 1, 7201, "batch gives 1 node 2:00:00, not 2:00:01; type --queue extended"),
        ("batch", 32, 86400, "batch gives 32 nodes 2:00:00, not 24:00:00; type --queue extended"),
        ("batch", 184, 60, "batch takes up to 183 nodes, not 184; no other queue takes so many; type --nodes 183"),
        ("batch", 184, 86400, "so many; type --nodes 183 --walltime 6:00:00"),
        ("extended", 65, 86400, "takes up to 64 nodes, not 65; type --queue batch --walltime 2:00:00"),
        ("debug", 1, 60, "debug forbids jobs that submit their successor; type --queue batch"),
        ("debg", 1, 60, r"lake has no queue debg \(did you mean debug\?\)"),
    ],
)
def test_check_refuses_and_names_what_would_do(
    lake: site.Site, name: str, nodes: int, walltime_s: int, message: str
) -> None:
    with pytest.raises(Refused, match=message):
        queue.check(lake, name, nodes, walltime_s, chain=True)


def test_check_takes_a_job_without_successor_in_a_debug_queue(lake: site.Site) -> None:
    queue.check(lake, "debug", 1, 60, chain=False)


def test_find_takes_any_queue_where_the_site_says_so() -> None:
    assert queue.find(site.load(tree.root(), "slurm"), "gpu_long") == site.Queue(partition="gpu_long")


def test_frontier_has_the_bins_of_its_guide() -> None:
    batch = site.load(tree.root(), "frontier").queues["batch"]
    longest = [queue.most_s(batch, nodes) for nodes in (1, 91, 92, 183, 184, 9472)]
    assert longest == [7200, 7200, 21600, 21600, 43200, 43200]


def test_aurora_and_polaris_have_the_bins_of_their_guides() -> None:
    aurora = site.load(tree.root(), "aurora").queues["prod"]
    polaris = site.load(tree.root(), "polaris").queues["prod"]
    assert [queue.most_s(aurora, nodes) for nodes in (256, 1024, 1025, 2000)] == [43200, 43200, 64800, 86400]
    assert [queue.most_s(polaris, nodes) for nodes in (10, 24, 25, 99, 100)] == [10800, 10800, 21600, 21600, 86400]


@pytest.mark.parametrize(
    ("name", "nodes", "walltime_s", "message"),
    [
        ("prod", 255, 3600, "takes 256 nodes or more, not 255; no other queue takes so few; type --nodes 256"),
        ("prod", 1024, 43201, "gives 1024 nodes 12:00:00, not 12:00:01; type --walltime 12:00:00"),
        ("capacity", 17, 3600, "takes up to 16 nodes, not 17; no other queue takes so many; type --nodes 16"),
        ("debug", 2, 3600, "forbids jobs that submit their successor; type --queue capacity"),
    ],
)
def test_aurora_refuses_and_names_what_would_do(name: str, nodes: int, walltime_s: int, message: str) -> None:
    with pytest.raises(Refused, match=message):
        queue.check(site.load(tree.root(), "aurora"), name, nodes, walltime_s, chain=True)


@pytest.mark.parametrize(
    ("nodes", "spares", "message"),
    [
        (200, 5, r"not 200; no other queue takes so few; type --nodes 251 \(5 spares on top\)"),
        (255, 1, r"type --nodes 255 \(1 spare on top\)"),
        (255, 254, r"type --nodes 2 \(254 spares on top\)"),
    ],
)
def test_the_number_to_type_is_of_nodes_that_train(nodes: int, spares: int, message: str) -> None:
    with pytest.raises(Refused, match=message):
        queue.check(site.load(tree.root(), "aurora"), "prod", nodes, 3600, True, spares)


def test_a_queue_that_cannot_hold_the_spares_is_told_without_them() -> None:
    with pytest.raises(Refused, match=r"not 21; no other queue takes so many; type --nodes 16 --set spares=0$"):
        queue.check(site.load(tree.root(), "aurora"), "capacity", 21, 3600, True, 20)
