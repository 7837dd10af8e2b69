"""What a scheduler may be asked for by a job's own words."""

from pathlib import Path

import pytest
import trees

from outlast import directives, render, settings
from outlast.refused import Refused

PBS = trees.SITE.replace('"slurm"', '"pbs"').replace("[queues.batch]", 'launcher = "pals"\n\n[queues.batch]', 1)

NO_NAMES = [
    *("account=a b", "account=a\nb", "account=../../x", "account=a/b", "account=é", "account=-A", "account=a;b"),
    *("queue=q;x", "queue=a b", "queue=,", "queue=-q", "queue=a\n"),
    *("exclude=n1\tn2", "exclude=n1;x", 'exclude=["n1", ""]', "reservation=x\x07", "reservation=$(x)"),
    *("select=system=x+900", "select=a b", "filesystems=a b", 'filesystems=["a", ""]', "filesystems=a&b"),
]


def check(tmp_path: Path, *assignments: str, site: str = trees.SITE) -> None:
    plan = trees.plan(trees.make(tmp_path, site=site), *assignments)
    directives.check(plan.job, plan.site)


@pytest.mark.parametrize("assignment", NO_NAMES)
def test_what_is_no_name_is_refused(tmp_path: Path, assignment: str) -> None:
    with pytest.raises(Refused, match=f"{assignment.partition('=')[0]} .* goes into a directive") as refused:
        check(tmp_path, assignment)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("site", [trees.SITE, PBS])
@pytest.mark.parametrize(
    "assignment",
    [
        *("account=m1234_g", "account=ABC123", "account=datascience", "account=proj-a.b", "account=project_465000123"),
        *("queue=workq@server", "queue=debug-scaling", "queue=gpu_h100,gpu_a100", "queue=boost_usr_prod"),
        *("exclude=frontier[00001-00003,00007],n.domain", "reservation=R123.server", "reservation=maint_1"),
        *("select=system=polaris:ngpus=4:mem=100gb", "filesystems=home:flare:daos_user_fs"),
    ],
)
def test_real_names_are_taken(tmp_path: Path, assignment: str, site: str) -> None:
    check(tmp_path, assignment, site=site)


@pytest.mark.parametrize(
    ("option", "advice"),
    [
        ("--qos=debug", "--queue"),
        ("-q debug", "--queue"),
        ("-qdebug", "--queue"),
        ("-Hqdebug", "--queue"),
        ("--partition=x", "--queue"),
        ("--part=x", "--queue"),
        ("--nodes=900", "--nodes N"),
        ("-N 900", "--nodes N"),
        ("--time=9:00:00", "--walltime"),
        ("-t9:00:00", "--walltime"),
        ("--account=x", "--account"),
        ("--job-name=x", "run=NAME"),
        ("--output=x", "the log"),
        ("--exclude=n1", "exclude=NODE"),
        ("--signal=TERM@60", "margin_s"),
        ("--no-requeue", "successor"),
        ("--mail-user=x", "mail.to"),
        ("--array=1-9", "one job at a time"),
        ("--export=ALL", "under .env."),
        ("--exp=ALL", "under .env."),
        ("-V", "submit nothing"),
    ],
)
def test_options_of_sbatch_that_are_outlasts_own_are_refused(tmp_path: Path, option: str, advice: str) -> None:
    with pytest.raises(Refused, match=f"directives '{option}' is not for directives: .*{advice}"):
        check(tmp_path, f'directives=["--licenses=x:1", "{option}"]')


@pytest.mark.parametrize(
    ("option", "advice"),
    [
        ("-V", "under .env."),
        ("-v A=1", "under .env."),
        ("-q debug", "--queue"),
        ("-A x", "--account"),
        ("-N x", "run=NAME"),
        ("-l select=900", "--nodes N"),
        ("-lselect=900", "--nodes N"),
        ("-l nodes=900", "--nodes N"),
        ("-l license=1,walltime=9:00:00", "--walltime"),
        ("-l filesystems=home", "filesystems=NAME"),
        ("-l place=pack", "place"),
        ("-r n", "successor"),
        ("-o x", "the log"),
        ("-S /bin/sh", "own shell"),
        ("-J 1-9", "one job at a time"),
    ],
)
def test_options_of_qsub_that_are_outlasts_own_are_refused(tmp_path: Path, option: str, advice: str) -> None:
    with pytest.raises(Refused, match=f"directives '{option}' is not for directives: .*{advice}"):
        check(tmp_path, f'directives=["{option}"]', site=PBS)


@pytest.mark.parametrize("word", ["x", "", "-", "--", "#x", "qos=debug", "--=x"])
def test_what_is_no_option_is_refused(tmp_path: Path, word: str) -> None:
    with pytest.raises(Refused, match=f"directives '{word}' is no option"):
        check(tmp_path, f'directives=["{word}"]')


@pytest.mark.parametrize("word", ["--comment=a b", "--comment='a'", "--comment=a\\nb", "-l a b"])
def test_what_a_line_cannot_hold_is_refused(tmp_path: Path, word: str) -> None:
    with pytest.raises(Refused, match=r"directives .* goes into a directive"):
        check(tmp_path, f'directives=["{word}"]')


@pytest.mark.parametrize(
    "option",
    [
        *("--licenses=x:1", "--constraint=gpu&hbm80g", "-C nvme", "--exclusive", "--gres=gpu:4", "--mem=0", "-S 0"),
        *("--network=disable_rdzv_get", "--time-min=1:00:00", "--nodelist=n1", "--comment=x", "--uenv=a/b:/c", "-s"),
    ],
)
def test_other_options_of_sbatch_are_taken(tmp_path: Path, option: str) -> None:
    check(tmp_path, f'directives=["{option}"]')


@pytest.mark.parametrize("option", ["-l license=1", "-W tolerate_node_failures=all", "-P x", "-l software=select"])
def test_other_options_of_qsub_are_taken(tmp_path: Path, option: str) -> None:
    check(tmp_path, f'directives=["{option}"]', site=PBS)


def test_a_site_that_wants_filesystems_is_never_without(tmp_path: Path) -> None:
    site = PBS.replace("[queues.batch]", 'filesystems = ["home", "lus"]\n\n[queues.batch]', 1)
    check(tmp_path, site=site)
    for none in ("filesystems=", "filesystems=[]"):
        with pytest.raises(Refused, match="lake takes no job without filesystems; type --set filesystems=home:lus"):
            check(tmp_path, none, site=site)


@pytest.mark.parametrize("root", ["/tmp/sp ace", "/tmp/a,b", "/tmp/a@b", "/tmp/a'b"])
def test_a_path_that_a_pbs_line_cannot_hold_is_refused(tmp_path: Path, root: str) -> None:
    install = settings.Install("python3", "python3", root)
    with pytest.raises(Refused, match="a #PBS line cannot hold that path"):
        render.script(trees.plan(trees.make(tmp_path, site=PBS)), tmp_path, install)
    assert root in render.script(trees.plan(trees.make(tmp_path)), tmp_path, install).replace("'\"'\"'", "'")
