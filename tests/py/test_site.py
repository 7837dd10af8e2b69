from pathlib import Path

import pytest
import trees

from outlast import site, tree
from outlast.refused import Refused

ROOT = tree.root()


def test_load_reads_the_facts_of_a_site(tmp_path: Path) -> None:
    lake = site.load(trees.make(tmp_path), "lake")
    assert (lake.ranks_per_node, lake.queues["batch"].bins[1]) == (8, site.Bin(183, 21600))


def test_load_names_the_nearest_site(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"no site lak \(did you mean lake\?\)"):
        site.load(trees.make(tmp_path), "lak")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (trees.SITE.replace("qos", "qso"), r"queues.debug: unknown key qso \(did you mean qos\?\)"),
        (trees.SITE.replace('queue = "batch"', 'queue = "main"'), "queue is 'main', not one of its queues"),
        (trees.SITE.replace('name = "lake"', 'name = "sea"'), "name is 'sea', and the folder is lake"),
        ("name = x", r"sites/lake/site\.toml: .*line 1"),
    ],
)
def test_load_refuses_a_wrong_file(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(Refused, match=message):
        site.load(trees.make(tmp_path, site=text), "lake")


def test_load_refuses_a_launcher_that_the_scheduler_lacks(tmp_path: Path) -> None:
    pals = trees.SITE.replace("[queues.batch]", 'launcher = "pals"\n\n[queues.batch]', 1)
    with pytest.raises(Refused, match="'slurm' does not go with launcher 'pals'"):
        site.load(trees.make(tmp_path, site=pals), "lake")
    with pytest.raises(Refused, match="'pbs' does not go with launcher 'own'"):
        site.load(trees.make(tmp_path, site=trees.SITE.replace('"slurm"', '"pbs"')), "lake")


def test_a_site_from_outside_takes_the_place_of_one_of_the_same_name(tmp_path: Path) -> None:
    root = trees.make(tmp_path / "tree")
    near = trees.outside(tmp_path / "near", "lake", summary="near")
    far = trees.outside(tmp_path / "far", "lake", summary="far")
    trees.outside(far, "sea")
    assert site.load(root, "lake", [near, far]).summary == "near"
    assert site.home(root, "sea", [near, far]) == far / "sea"
    assert site.names(root, [near, far]) == ["lake", "sea"]


def test_typed_folders_come_before_those_of_the_environment(tmp_path: Path) -> None:
    typed, known = trees.outside(tmp_path / "typed", "sea"), trees.outside(tmp_path / "known", "sea")
    gone = tmp_path / "gone"
    assert site.outside([typed], {"OUTLAST_SITES": f"{gone}::{known}"}) == (typed, known)


def test_a_typed_folder_must_hold_sites(tmp_path: Path) -> None:
    folder = trees.outside(tmp_path, "sea")
    with pytest.raises(Refused, match=r"/sea is a site; type the folder that it lies in"):
        site.outside([folder / "sea"], {})
    with pytest.raises(Refused, match=r"/none has no SITE/site\.toml"):
        site.outside([tmp_path / "none"], {})


def test_jobs_leaves_the_facts_out(tmp_path: Path) -> None:
    assert site.jobs(trees.make(tmp_path), "lake") == ["small"]


@pytest.mark.parametrize("name", site.names(ROOT))
def test_the_default_queue_of_a_site_takes_chains(name: str) -> None:
    facts = site.load(ROOT, name)
    assert facts.queues[facts.queue].chain


@pytest.mark.parametrize("name", site.names(ROOT))
def test_every_site_has_a_page_in_the_manual(name: str) -> None:
    assert (ROOT / f"docs/sites/{name}.md").is_file()


@pytest.mark.parametrize("name", site.names(ROOT))
def test_every_site_has_a_smoke_job_and_another(name: str) -> None:
    assert len(site.jobs(ROOT, name)) > 1 and "smoke" in site.jobs(ROOT, name)
