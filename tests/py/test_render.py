import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import trees
from conftest import OWN_PATTERNS

from outlast import render, site, tree
from outlast.commands import render as command
from outlast.refused import Refused

ROOT = tree.root()
ALL = [(name, job) for name in site.names(ROOT) for job in site.jobs(ROOT, name)]


@pytest.mark.parametrize(("name", "job"), ALL)
def test_every_job_of_every_site_is_as_in_golden(tmp_path: Path, name: str, job: str) -> None:
    file = ROOT / f"tests/golden/{name}/{job}.sh"
    assert trees.golden(trees.outline(ROOT, tmp_path), name, job) == file.read_text(), "make golden, and read the diff"


def test_golden_has_no_job_that_is_gone() -> None:
    files = (ROOT / "tests/golden").glob("*/*.sh")
    assert sorted((file.parent.name, file.stem) for file in files) == sorted(ALL)


def test_the_anatomy_shows_the_script_as_it_is() -> None:
    page = (ROOT / "docs/anatomy.md").read_text()
    script = iter((ROOT / "tests/golden/aurora/1b-256n.sh").read_text().splitlines())
    shown = [line for block in re.findall(r"```bash\n(.*?)```", page, re.S) for line in block.splitlines()]
    assert [line for line in shown if line.strip() != "…" and line not in script] == []


def shellcheck(script: str) -> str:
    """What shellcheck finds."""
    run = ["shellcheck", "-s", "bash", "-"]
    return subprocess.run(run, input=script, text=True, capture_output=True, check=False).stdout


@pytest.mark.parametrize(("name", "job"), ALL)
def test_every_jobs_own_part_passes_shellcheck(tmp_path: Path, name: str, job: str) -> None:
    assert shellcheck(trees.golden(trees.outline(ROOT, tmp_path), name, job)) == ""


@pytest.mark.parametrize(("name", "job"), ALL)
def test_every_job_renders_whole(name: str, job: str) -> None:
    assert "ol_ledger_add()" in trees.golden(ROOT, name, job)


@pytest.mark.parametrize("name", ["frontier", "local"])
def test_a_whole_script_passes_shellcheck(name: str) -> None:
    assert shellcheck(trees.golden(ROOT, name, "smoke")) == ""


def test_the_same_inputs_give_the_same_bytes(tmp_path: Path) -> None:
    plan = trees.plan(trees.make(tmp_path), "env.B=1", "env.A=2")
    assert render.script(plan, tmp_path, trees.INSTALL) == render.script(plan, tmp_path, trees.INSTALL)


def test_bash_text_survives_the_template(tmp_path: Path) -> None:
    script = render.script(trees.plan(trees.make(tmp_path)), tmp_path, trees.INSTALL)
    assert '"${#OUTLAST_COMMAND[@]}"' in script and "not for the reader" not in script


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{ job.nods }}", "templates/slurm.sh.j2: .*nods"),
        ("main() {", "the script is not valid Bash .*line"),
        ("{% if %}", "templates/slurm.sh.j2: line 1"),
    ],
)
def test_script_refuses_a_wrong_template(tmp_path: Path, template: str, message: str) -> None:
    with pytest.raises(Refused, match=message):
        render.script(trees.plan(trees.make(tmp_path, template=template)), tmp_path, trees.INSTALL)


def test_script_refuses_bash_without_what_it_needs(tmp_path: Path) -> None:
    root = trees.make(tmp_path)
    trees.write(root / "lib/log.sh", trees.LOG.replace("nothing", "bounded"))
    with pytest.raises(Refused, match=r"lib/log\.sh without lib/bounded\.sh"):
        render.script(trees.plan(root), root, trees.INSTALL)
    trees.write(root / "lib/log.sh", trees.LOG)
    trees.write(root / "sites/lake/env.sh", trees.SITE_ENV.replace("nothing", "environment"))
    with pytest.raises(Refused, match=r"sites/lake/env\.sh without lib/environment\.sh"):
        render.script(trees.plan(root), root, trees.INSTALL)


def test_script_names_a_template_that_is_missing(tmp_path: Path) -> None:
    root = trees.make(tmp_path, site=trees.SITE.replace('"slurm"', '"cron"'))
    with pytest.raises(Refused, match=r"templates/cron.sh.j2 is missing: lake has scheduler 'cron'"):
        render.script(trees.plan(root), root, trees.INSTALL)


def test_script_refuses_setup_that_is_no_bash(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="not valid Bash"):
        render.script(trees.plan(trees.make(tmp_path), "setup=if true"), tmp_path, trees.INSTALL)


def test_script_counts_spares_for_the_queue(tmp_path: Path) -> None:
    root = trees.make(tmp_path)
    render.script(trees.plan(root, "nodes=183"), root, trees.INSTALL)
    with pytest.raises(Refused, match="up to 183 nodes, not 184"):
        render.script(trees.plan(root, "nodes=183", "spares=1"), root, trees.INSTALL)


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The command works on a small tree, with an empty user file."""
    root = trees.make(tmp_path / "tree")
    monkeypatch.setattr(tree, "root", lambda: root)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


def test_render_prints_a_script(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["lake", "small", "--nodes", "8", "--walltime", "90m", "--set", "run=r2"]) == 0
    out, err = capsys.readouterr()
    assert {"#SBATCH --nodes=9", "#SBATCH --time=1:30:00", "OUTLAST_RUN='r2'"} <= set(out.splitlines())
    assert err == ""


def test_render_refuses_with_one_line_and_status_2(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["lake", "smal"]) == 2
    out, err = capsys.readouterr()
    assert (out, err) == ("", "render: lake has no job smal (did you mean small?)\n")


def test_render_reads_the_users_own_file(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trees.write(lake / "config/outlast/config.toml", '[site.lake]\naccount = "mine"')
    command.main(["lake", "small"])
    assert "#SBATCH --account=mine" in capsys.readouterr().out


def test_render_writes_a_whole_file_or_none(lake: Path) -> None:
    file = trees.write(lake / "job.sh", "old")
    assert command.main(["lake", "small", "-o", str(file), "--set", "setup=if true"]) == 2
    assert file.read_text() == "old"
    assert command.main(["lake", "small", "-o", str(file)]) == 0
    assert file.read_text().startswith("#!/bin/bash") and os.access(file, os.X_OK)
    assert [path.name for path in lake.glob("*job.sh*")] == ["job.sh"]


def test_render_says_why_a_file_cannot_be_written(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["lake", "small", "-o", str(lake / "no/job.sh")]) == 2
    assert capsys.readouterr().err == f"render: {lake}/no/job.sh: No such file or directory\n"


def test_patterns_of_ones_own_are_found_from_where_render_is_typed(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.toml").write_text(OWN_PATTERNS)
    monkeypatch.chdir(tmp_path)
    assert command.main(["lake", "small", "--set", "crash.patterns=mine.toml"]) == 0
    assert f"OUTLAST_CRASH_PATTERNS='{tmp_path}/mine.toml'\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "No such file or directory"),
        ("[[pattern]]\n", "every pattern needs name"),
        (OWN_PATTERNS.replace("tokenizer_server", "no word"), "a name has letters, digits and . _ - only"),
        (OWN_PATTERNS.replace("(?P", "(?"), "is no regular expression"),
    ],
)
def test_patterns_that_are_no_good_are_refused(
    text: str | None, said: str, lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.toml"
    if text is not None:
        path.write_text(text)
    assert command.main(["lake", "small", "--set", f"crash.patterns={path}"]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"render: crash.patterns: {path}: ")
    assert said in told
    assert told.count("\n") == 1


def test_list_is_for_people_and_for_programs(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command.main(["--list"])
    command.main(["--list", "--json"])
    people, programs = capsys.readouterr().out.splitlines()
    assert people == "lake: small"
    assert json.loads(programs) == [{"site": "lake", "jobs": ["small"]}]


def test_a_site_from_outside_renders(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = trees.outside(lake / "mine", "sea")
    assert command.main(["sea", "small", "--site-dir", str(folder)]) == 0
    script = capsys.readouterr().out
    assert "export WHENCE=sea" in script and "OUTLAST_SITE='sea'" in script


def test_a_site_of_outlast_sites_renders_with_the_real_template(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OUTLAST_SITES", str(trees.outside(tmp_path, "sea")))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    assert command.main(["sea", "small"]) == 0
    script = capsys.readouterr().out
    assert "export WHENCE=sea" in script and "ol_ledger_add()" in script


def test_list_says_where_a_site_is_from_only_if_it_is_from_outside(
    lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = trees.outside(lake / "mine", "sea")
    command.main(["--list", "--site-dir", str(folder)])
    command.main(["--list", "--json", "--site-dir", str(folder)])
    *people, programs = capsys.readouterr().out.splitlines()
    assert people == ["lake: small", f"sea: small ({folder}/sea)"]
    assert json.loads(programs)[1] == {"site": "sea", "jobs": ["small"], "folder": f"{folder}/sea"}


def test_a_site_dir_that_holds_no_site_is_refused(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["lake", "small", "--site-dir", str(lake / "nowhere")]) == 2
    assert "has no SITE/site.toml" in capsys.readouterr().err


def test_json_without_list_is_refused(lake: Path) -> None:
    assert command.main(["lake", "small", "--json"]) == 2


def test_explain_tells_each_key_its_value_and_its_origin(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["lake", "small", "--explain", "--nodes", "2"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["nodes", "2", "<-", "command", "line"] in lines
    assert ["guard.attempts", "3", "<-", "default"] in lines


def test_render_needs_no_typer() -> None:
    """It would take as long to load as all the rest."""
    program = (
        "import sys; from outlast import commands; commands.main(['render', 'local', 'smoke']);"
        "print(sorted({'typer', 'rich'} & sys.modules.keys()), file=sys.stderr)"
    )
    path = {**os.environ, "PYTHONPATH": str(ROOT / "pyhelpers")}
    done = subprocess.run([sys.executable, "-c", program], env=path, text=True, capture_output=True, check=True)
    assert done.stderr == "[]\n"
