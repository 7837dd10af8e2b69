from datetime import datetime
from pathlib import Path

import pytest
import trees

from outlast import job
from outlast.refused import Refused

REFUSED = [
    (("account=",), r"lake needs an account; type --account NAME, .*\[site.lake\]"),
    (("run=a b",), "run 'a b' names a folder"),
    (("run=../x",), "run '../x' names a folder"),
    (("from=a b",), "from 'a b' is a run, by its name or its absolute path"),
    (("from=../a",), "from '../a' is a run"),
    (("from=/a\nb",), "from .* is a run"),
    (("from=r1@x",), "from 'r1@x' is a run"),
    (("run=r1", "from=r1@20"), "from = 'r1@20' is the run itself"),
    (("pins.files=a\nb",), "pins.files: .* control character"),
    (("checkpoint.on_durable_every=0",), "take at least 1"),
    (("checkpoint.score_min=high",), "score_min 'high' is no number"),
    (("nodes=0",), "nodes is 0"),
    (("walltime_s=899",), "start-up 300 s, one checkpoint interval 300 s and margin 300 s are 900 s"),
    (("preset=torchtitan", "checkpoint.copier=plain"), '.*copier = "agents", or .*storage=shared'),
    (
        (
            "checkpoint.stage_in=own-shards",
            "checkpoint.copier=plain",
        ),
        "stage_in = own-shards needs .*copier=agents",
    ),
    (("env.A-B=1",), "env.A-B is no name of a variable"),
    (("online=true",), "lake has no proxy"),
    (("guard.end_date=soon",), "guard.end_date is a day"),
    (("guard.end_date=20270131",), "guard.end_date is a day"),
    (("guard.end_date=2027-W05-1",), "guard.end_date is a day"),
    (("guard.end_date=2027-02-30",), "guard.end_date is a day"),
    (("mail.to=a@b\nBcc: c",), "mail.to .* is no address"),
    (("mail.to=ada@example.org,|sh",), "mail.to '|sh' is no address"),
    (("mail.to=-oQ/tmp",), "mail.to .* is no address"),
    (('mail.hooks=["a b"]',), "mail.hooks 'a b' is no name"),
    (('mail.on=["hold"]',), "mail.on has 'hold' .did you mean held"),
    (("mail.scheduler=true",), "nobody to send it to"),
    (("project_dir=/a\nb",), "project_dir '/a.nb' has a line end"),
    (("runs_dir=/a\tb",), "runs_dir '/a.tb' has a line end"),
    (("progress.step_regex=(",), r"progress.step_regex '\(' is no extended regular expression \(Unmatched"),
    (("progress.step_regex=step [0-9]+",), "takes one group, around what counts"),
    (("progress.step_regex=(step) ([0-9]+)",), "takes one group"),
    (("progress.step_regex=step (\\d+)",), r"write \[0-9\]"),
    (("progress.eval_regex=(a) (b)",), "progress.eval_regex .* takes one group"),
    (("watchdog.heartbeat=alive",), "watchdog.heartbeat = 'alive' is no absolute path"),
    (("watchdog.stack_signal=USR1", "checkpoint.save_signal=USR1"), "is what the trainer saves at"),
    (("progress.step_regex=a\n(b)",), "progress.step_regex .* line end"),
    (("progress.finish_regex=[a",), "progress.finish_regex '\\[a' is no extended regular expression"),
]


REFUSED += [
    ((f"checkpoint.prefix={text}",), "checkpoint.prefix .* is no beginning of a folder's name")
    for text in ("a\nb", "../x-", "/etc/", "*", "a/b-", ".", ".x", "-x", "a b", "a?", "[a]", "$x", "é", "x\n")
]
REFUSED += [
    ((f"checkpoint.complete={text}",), "checkpoint.complete .* is no name of a file in a checkpoint")
    for text in ("a\nb", "../x", "/etc/passwd", "a/../b", "a/..", "*", "a b", "a/", "a//b")
]


def check(tmp_path: Path, *assignments: str, site: str = trees.SITE) -> None:
    text = trees.JOB + '[checkpoint]\nstorage = "local"\ninterval_s = 300\n'
    plan = trees.plan(trees.make(tmp_path, site=site, job=text), *assignments)
    job.check(plan.job, plan.site, plan.preset)


@pytest.mark.parametrize(("assignments", "message"), REFUSED)
def test_check_refuses_in_one_line(tmp_path: Path, assignments: tuple[str, ...], message: str) -> None:
    with pytest.raises(Refused, match=message) as refused:
        check(tmp_path, *assignments)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "assignment",
    [
        "walltime_s=900",
        "guard.end_date=2027-01-31",
        "from=r1",
        "checkpoint.score_max=-1.5e3",
        "checkpoint.prefix=epoch=1-step=",
        "checkpoint.prefix=global_step",
        "checkpoint.prefix=iter_0.5+",
        "checkpoint.prefix=",
        "checkpoint.complete=.metadata",
        "checkpoint.complete=trainer/state.v2.json",
        "checkpoint.complete=",
        "from=/lake/my runs/r@1@20",
        "guard.end_date=2027-01-31T18:00",
        "progress.step_regex=[(]it ([0-9]+)[)]",
        "progress.step_regex=/{target_step} ([0-9]+)",
        "progress.finish_regex=done|over",
    ],
)
def test_check_takes(tmp_path: Path, assignment: str) -> None:
    check(tmp_path, assignment)


def test_check_refuses_what_the_scheduler_cannot_do(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="lake has scheduler slurm, which takes no filesystems; only PBS takes it"):
        check(tmp_path, "filesystems=home")
    pbs = trees.SITE.replace('"slurm"', '"pbs"').replace("[queues.batch]", 'launcher = "pals"\n\n[queues.batch]', 1)
    with pytest.raises(Refused, match="takes no exclude; leave it out, PBS cannot keep a job off a node"):
        check(tmp_path, "exclude=lake7", site=pbs)


def test_an_end_date_has_come_at_its_day() -> None:
    now = datetime(2027, 1, 31, 9)
    assert job.end_date_has_come("2027-01-31", now)
    assert not any(job.end_date_has_come(text, now) for text in ("2027-02-01", "2027-01-31T18:00", "", "soon"))


def test_check_takes_online_without_a_proxy_where_none_is_needed(tmp_path: Path) -> None:
    check(tmp_path, "online=true", site=trees.SITE.replace("[queues.batch]", "internet = true\n\n[queues.batch]", 1))


@pytest.mark.parametrize("typed", [(), ("checkpoint.copier=plain", "nodes=1")])
def test_check_takes_a_sharded_preset_where_all_its_parts_are_seen(tmp_path: Path, typed: tuple[str, ...]) -> None:
    check(tmp_path, "preset=torchtitan", *typed)


def test_a_sharded_checkpoint_stays_where_it_is_and_any_other_comes_to_the_nodes(tmp_path: Path) -> None:
    root = trees.make(tmp_path)
    assert trees.plan(root).job.checkpoint.brings == "all"
    assert trees.plan(root, "checkpoint.sharded=true").job.checkpoint.brings == "none"
    assert trees.plan(root, "checkpoint.stage_in=none").job.checkpoint.brings == "none"


def test_check_refuses_local_storage_in_memory(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"lake has no node-local disk .* checkpoint\.storage=shared"):
        check(tmp_path, site=trees.SITE.replace("local_is_disk = true", ""))
