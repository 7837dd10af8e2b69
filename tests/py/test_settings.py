import re
import subprocess
from dataclasses import replace
from pathlib import Path

import trees

from outlast import settings
from outlast.job import NEWS


def block(tmp_path: Path, *assignments: str) -> dict[str, str]:
    """The settings as Bash sees them."""
    text = settings.block(trees.plan(trees.make(tmp_path), *assignments), trees.INSTALL)
    script = f"USER=bob\n{text}\nfor v in ${{!OUTLAST_@}}; do declare -n r=$v; printf '%s=%s\\0' $v \"${{r[*]}}\"; done"
    out = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout
    return dict(item.split("=", 1) for item in out.split("\0")[:-1])


def test_block_sets_what_a_job_script_reads(tmp_path: Path) -> None:
    values = block(tmp_path, "exclude=lake1,lake2", "chain=false")
    assert values["OUTLAST_RUNS_DIR"] == "/lus/abc123/bob"
    assert values["OUTLAST_LOCAL_BASE"] == "/mnt/bb/bob"
    assert values["OUTLAST_THREADS"] == "7"
    assert values["OUTLAST_LAUNCH_ARGS"] == "--gpu-bind=closest"
    assert values["OUTLAST_COMMAND"] == "python3 train.py --output_dir {ckpt_dir} {resume}"
    assert values["OUTLAST_RESUME_ARGS"] == "--resume_from_checkpoint {ckpt}"
    assert (values["OUTLAST_CHAIN"], values["OUTLAST_EXCLUDE"]) == ("0", "lake1,lake2")


def test_every_line_is_one_plain_assignment(tmp_path: Path) -> None:
    text = settings.block(trees.plan(trees.make(tmp_path)), trees.INSTALL)
    first, *rest = [line for line in text.splitlines() if line]
    assert first.startswith("USER=")
    assert all(re.match(r"OUTLAST_[A-Z_]+=", line) for line in rest)


def test_every_setting_that_bash_reads_is_set(tmp_path: Path) -> None:
    """What lib reads without a default, a setting gives, or lib or a template sets itself."""
    root = Path(settings.__file__).parents[2]
    bash = "\n".join(path.read_text() for path in [*root.glob("lib/**/*.sh"), *root.glob("templates/*.j2")])
    code = re.sub(r"^\s*#.*$", "", bash, flags=re.M)
    code = re.sub(r"\$\{!\w+@\}", "", code)  # names that begin so, whichever there are
    read = set(re.findall(r"(OUTLAST_[A-Z_]+)(?![A-Z_]*:?[-+])", code))
    made = set(re.findall(r"(?:^|[\s;(])(OUTLAST_[A-Z_]+)\+?=", code, re.M))
    made |= set(re.findall(r"(?:printf -v |mapfile -t |read -r |exec \{)(OUTLAST_[A-Z_]+)", code))
    assert read - made - block(tmp_path).keys() == set()


def test_the_target_step_goes_into_command_and_regex(tmp_path: Path) -> None:
    values = block(tmp_path, "progress.target_step=70", "command=python3 t.py --max_steps {target_step}")
    assert values["OUTLAST_COMMAND"].endswith("--max_steps 70")
    assert values["OUTLAST_STEP_REGEX"] == r"\| *([0-9]+)/70 \["


def test_directives_ask_for_spares_too(tmp_path: Path) -> None:
    plan = trees.plan(trees.make(tmp_path), "spares=2", "reservation=today", "queue=debug", "directives=--licenses=x:1")
    assert settings.directives(plan) == [
        "--job-name=small",
        "--account=ABC123",
        "--partition=batch",
        "--qos=debug",
        "--nodes=6",
        "--time=1:00:00",
        "--reservation=today",
        "--constraint=nvme",
        "--licenses=x:1",
    ]


def test_directives_of_pbs_stand_as_qsub_takes_them(tmp_path: Path) -> None:
    facts = 'launcher = "pals"\nselect = "system=lake"\nfilesystems = ["home", "deep"]\n\n[queues.batch]'
    text = trees.SITE.replace('"slurm"', '"pbs"').replace("[queues.batch]", facts, 1)
    text = text.replace('["--constraint=nvme"]', '["-l nvme=true"]')
    plan = trees.plan(trees.make(tmp_path, site=text), "spares=2", "directives=-W umask=022")
    assert settings.directives(plan) == [
        "-N small",
        "-A ABC123",
        "-q batch",
        "-l select=6:system=lake",
        "-l place=scatter",
        "-l walltime=1:00:00",
        "-l filesystems=home:deep",
        "-l nvme=true",
        "-W umask=022",
    ]


def test_a_reservation_of_pbs_is_a_queue(tmp_path: Path) -> None:
    text = trees.SITE.replace('"slurm"', '"pbs"').replace("[queues.batch]", 'launcher = "pals"\n[queues.batch]', 1)
    plan = trees.plan(trees.make(tmp_path, site=text), "reservation=R123")
    assert "-q R123" in settings.directives(plan)


def test_functions_export_variables_and_hold_the_jobs_lines(tmp_path: Path) -> None:
    plan = trees.plan(trees.make(tmp_path), "env.A=x y", "setup=echo set up")
    run = f"{settings.functions(plan)}\nol_job_env; ol_job_setup; printenv A; declare -F ol_job_prepare"
    done = subprocess.run(["bash", "-c", run], capture_output=True, text=True, check=False)
    assert done.stdout == "set up\nx y\n"


def test_prepare_is_there_only_if_the_job_has_it(tmp_path: Path) -> None:
    plan = trees.plan(trees.make(tmp_path))
    more = replace(plan, job=replace(plan.job, prepare=("make index",)))
    assert "ol_job_prepare()" in settings.functions(more)


def test_a_job_says_what_its_trainer_can_do_and_else_the_preset_does(tmp_path: Path) -> None:
    own = block(tmp_path, "checkpoint.save_signal=USR1", "checkpoint.saves_on_stop=true")
    assert (own["OUTLAST_SAVE_SIGNAL"], own["OUTLAST_SAVES_ON_STOP"]) == ("USR1", "1")
    presets = block(tmp_path / "other")
    assert (presets["OUTLAST_SAVE_SIGNAL"], presets["OUTLAST_SAVES_ON_STOP"]) == ("", "0")


def test_the_schedulers_own_mail_is_the_floor(tmp_path: Path) -> None:
    words = ("mail.scheduler=true", "mail.to=ada@example.org, bob@example.org")
    slurm = settings.directives(trees.plan(trees.make(tmp_path), *words))
    assert [line for line in slurm if "mail" in line] == [
        "--mail-user=ada@example.org",
        "--mail-type=END,FAIL,INVALID_DEPEND",
    ]
    text = trees.SITE.replace('"slurm"', '"pbs"').replace("[queues.batch]", 'launcher = "pals"\n[queues.batch]', 1)
    pbs = settings.directives(trees.plan(trees.make(tmp_path / "pbs", site=text), *words))
    assert pbs[3:5] == ["-M ada@example.org,bob@example.org", "-m ae"]


def test_a_checkpoint_is_late_after_two_intervals_at_the_earliest(tmp_path: Path) -> None:
    assert block(tmp_path / "a")["OUTLAST_NOT_DURABLE_S"] == "7200"
    assert block(tmp_path / "b", "checkpoint.interval_s=5000")["OUTLAST_NOT_DURABLE_S"] == "10000"
    assert block(tmp_path / "c", "mail.not_durable_s=0")["OUTLAST_NOT_DURABLE_S"] == "0"


def test_what_a_person_wants_to_hear_of_is_set_in_words(tmp_path: Path) -> None:
    values = block(tmp_path, 'mail.on=["held", "finished"]', 'mail.hooks=["team"]')
    assert (values["OUTLAST_MAIL_ON"], values["OUTLAST_MAIL_HOOKS"]) == ("held finished", "team")


def test_lib_sends_the_news_that_a_job_can_switch() -> None:
    root = Path(settings.__file__).parents[2]
    bash = "\n".join(path.read_text() for path in root.glob("lib/*.sh"))
    word = "([a-z_]+)"
    forms = [rf"ol_mail_send {word} ", rf"\bnews={word}", rf"\bnews=\S*:-{word}}}", rf'ol_decide_hold "[^"]+" {word}']
    assert {news for form in forms for news in re.findall(form, bash)} == set(NEWS)
