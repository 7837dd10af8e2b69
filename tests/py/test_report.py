"""Reports: from a ledger and a log to the page that a person reads."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import OWN_PATTERNS, Fake, event

from outlast import commands
from outlast.ledger import Event
from outlast.report import page, quote, report
from outlast.report.attempt import Attempt, ended

ROOT = Path(__file__).parents[2]

BEGUN = [
    event(0, "- submitted successor=7 name=mamba-1b"),
    event(1, "7 started durable_step=100"),
    event(10, "7 launched step=100 hosts=n1,n2"),
    event(20, "7 first_step step=101"),
    event(1000, "7 checkpoint_local step=600"),
]
CRASHED = event(4600, "7 ended class=crash evidence=broken code=1 step=740 durable_step=600 then=relaunch")
LINES = [event.name + "".join(f" {k}={v}" for k, v in event.fields.items()) for event in [*BEGUN[1:], CRASHED]]


def the_run(fake: Fake, *more: str, log: str = "") -> Path:
    """A run whose job 7 has crashed, and what followed."""
    run = fake.run("r1", "- submitted successor=7 name=mamba-1b", *(f"7 {line}" for line in LINES), *more)
    with run.script.open("a") as file:
        file.write("OUTLAST_RANKS_PER_NODE=1\n")
    (run.path / "logs").mkdir()
    (run.path / "logs/7.0.1.log").write_text(log)
    (run.path / "reports").mkdir()
    shutil.copytree(ROOT / "templates", fake.root / "templates")
    return run.path


def one(*more: object) -> Attempt:
    return ended([*BEGUN, CRASHED, *more])[-1]  # type: ignore[list-item]


# ── from the ledger ───────────────────────────────────────────────────────────────────────────────────────────────


def test_an_attempt_is_what_the_ledger_says_from_its_launch_to_its_end() -> None:
    found = one()
    assert (found.id, found.name, found.place, found.hosts) == ("7.0.1", "mamba-1b", 1, ("n1", "n2"))
    assert (found.from_step, found.step, found.durable_step, found.code) == (100, 740, 600, 1)
    assert (found.began_t, found.ended_t) == (1010.0, 5600.0)


def test_of_very_many_hosts_the_count_counts_and_no_half_name_is_shown() -> None:
    hosts = ",".join(f"frontier{number:05d}" for number in range(2000))[:800]
    told = event(4600, "7 ended class=crash evidence=broken code=1 step=740 durable_step=600 then=relaunch")
    (found,) = ended([event(10, f"7 launched step=100 nodes=2000 hosts={hosts}"), told])
    assert len(found.hosts) == 57
    assert found.hosts[-1] == "frontier00056"
    assert found.lost_node_hours == 2000 * 4590 / 3600


def test_what_the_job_read_in_the_log_is_not_read_again() -> None:
    found = one()
    assert found.verdict is None
    said = event(
        4600,
        "7 ended class=node evidence=ECC code=1 then=submit fingerprint=log:gpu_ecc:ab pattern=gpu_ecc scope=hardware "
        "persistence=transient action=retry-exclude line=17 text=ecc why=said began_on=n2 blame=n2",
    )
    said = replace(said, fields={**said.fields, "confidence": 0.9})
    verdict = ended([*BEGUN, said])[-1].verdict
    assert verdict is not None
    assert (verdict.pattern, verdict.scope, verdict.action) == ("gpu_ecc", "hardware", "retry-exclude")
    assert (verdict.confidence, verdict.blame_nodes, verdict.why) == (0.9, ["n2"], "said")
    assert (verdict.evidence[0].file, verdict.evidence[0].line) == ("logs/7.0.1.log", 17)
    assert report.plain(ended([*BEGUN, said])[-1]).failed_nodes == ["n2"]


def test_lost_is_what_came_after_the_durable_step() -> None:
    found = one()
    assert found.lost_steps == 140
    assert found.lost_node_hours == 2.0  # two nodes for the hour behind checkpoint 600


def test_without_a_checkpoint_of_its_own_the_whole_attempt_is_lost() -> None:
    found = ended([*BEGUN[:4], CRASHED])[-1]
    assert found.lost_node_hours == pytest.approx(2 * 4590 / 3600)


def test_what_followed_belongs_to_the_attempt_that_ended_before() -> None:
    found = one(event(4602, "7 submitted successor=8 name=b"), event(4700, "8 started"))
    assert (found.excluded, found.successor, found.held) == ((), "8", "")


def of(attempt: int, number: int, line: str) -> Event:
    return replace(event(number, line), attempt=attempt)


# As a job writes them: who is to blame is left out before the end is written, and swapped at the next launch.
TWO = [
    *BEGUN,
    of(1, 4600, "7 ended class=crash code=1 step=740 durable_step=600 then=relaunch"),
    of(2, 4700, "7 launched step=600 hosts=n1,n2"),
    of(2, 5000, "7 excluded nodes=n2 why=gpu_ecc"),
    of(2, 5001, "7 ended class=node code=1 step=800 durable_step=600 then=relaunch"),
    of(2, 5002, "7 struck nodes=n2 until=2026-12-13"),
]
THREE = [of(3, 5100, "7 swapped out=n2 in=n3 slot=1"), of(3, 5200, "7 launched step=600 hosts=n1,n3")]


def test_who_is_left_out_is_the_fault_of_the_attempt_that_ends_with_it() -> None:
    first, second = ended(TWO)
    assert (first.excluded, report.plain(first).failed_nodes) == ((), [])
    assert (second.excluded, second.until) == (("n2",), {"n2": "2026-12-13"})
    assert report.plain(second).failed_nodes == ["n2"]


@pytest.mark.parametrize("after", [[], THREE])
def test_done_says_until_when_and_on_what_it_goes_on(after: list[Event]) -> None:
    done = page.text(report.plain(ended([*TWO, *after])[-1]), Path("r"), "o").splitlines()[-2]
    assert done == "Done:         n2 excluded until 2026-12-13, relaunched on 1 + 1 spare"


def test_who_is_left_out_before_a_launch_is_not_its_fault() -> None:
    early = [of(0, 5, "7 excluded nodes=n8 why=health_check_gpu"), of(1, 6, "7 excluded nodes=n9 why=leftovers")]
    assert ended([*BEGUN[:2], *early, *BEGUN[2:], CRASHED])[-1].excluded == ()


def test_a_job_that_cannot_be_launched_was_ended_by_whom_it_left_out() -> None:
    out = of(2, 5100, "7 excluded nodes=n9 why=leftovers")
    first, second = ended([*TWO[:6], out, of(2, 5101, "7 ended class=unhealthy then=submit")])
    assert (first.excluded, second.excluded) == ((), ("n9",))


@pytest.mark.parametrize(("then", "successor"), [("submit", "8"), ("relaunch", "")])
def test_a_successor_that_waits_since_the_launch_is_who_goes_on(then: str, successor: str) -> None:
    end = event(4600, f"7 ended class=node then={then}")
    assert ended([*BEGUN[:2], event(5, "7 submitted successor=8 name=b"), *BEGUN[2:], end])[-1].successor == successor


def test_where_no_successor_could_be_submitted_no_job_goes_on() -> None:
    end = event(4600, "7 ended class=node then=submit")
    warned = event(4601, "7 warned text=no")
    warned = replace(warned, fields={"text": "no successor: the scheduler does not answer"})
    assert "Done:         no further job" in page.text(report.plain(ended([*BEGUN, end, warned])[-1]), Path("r"), "o")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("7 ended class=walltime step=740 durable_step=740 then=submit", False),
        ("7 ended class=cancelled step=740 durable_step=740 then=stop", False),
        ("7 ended class=node step=740 durable_step=740 then=submit", True),
        ("7 ended class=hang step=740 durable_step=740 then=relaunch", True),
    ],
)
def test_who_ends_as_planned_has_no_report(line: str, told: bool) -> None:
    assert ended([*BEGUN, event(4600, line)])[-1].is_told is told


def test_a_hold_and_the_end_of_the_run_are_told() -> None:
    stopped = event(4600, "7 ended class=stopped step=740 durable_step=740 then=hold")
    assert not ended([*BEGUN, stopped, event(4601, "7 held why=control/stop")])[-1].is_told
    done = event(4600, "7 ended class=done step=740 durable_step=740 then=finish")
    assert ended([*BEGUN, done, event(4601, "7 finished step=740")])[-1].is_told
    assert ended([BEGUN[1], event(2, "7 held why=max_jobs")])[-1].is_told


def test_a_job_that_the_scheduler_started_again_is_another_attempt() -> None:
    from dataclasses import replace

    again = [replace(event, restart=1, t=event.t + 9000) for event in [*BEGUN[1:], CRASHED]]
    assert [attempt.id for attempt in ended([*BEGUN, CRASHED, *again])] == ["7.0.1", "7.1.1"]


# ── the page ──────────────────────────────────────────────────────────────────────────────────────────────────────

OOM = """\
0: {'loss': 2.5, 'step': 739}
1: {'loss': 2.5, 'step': 739}
1: Traceback (most recent call last):
1:   File "train.py", line 5, in <module>
1:     login(token="hf_abcdefghijklmnopqrstuvwx1234")
1: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 79 GiB
0: [rank0]: torch.distributed.DistBackendError: NCCL error: remote process exited
"""


def test_the_report_is_read_at_a_glance(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    the_run(fake, "7 submitted successor=8 name=r1.2", log=OOM)
    assert commands.main(["report", "r1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "=== Crash Report: Job 7 ==="
    assert lines[1] == "Job name:     mamba-1b                (attempt 1 of job 1 in the chain)"
    assert lines[2] == "Ended:        crash, exit code 1      evidence: logs/7.0.1.log:6"
    assert "steps 100-740, last durable 600 (140 steps" in lines[3]
    assert lines[5].startswith("Error pattern: gpu_oom")
    assert lines[6] == "Last stderr:  (of the first failing rank)"
    assert "  1: torch.OutOfMemoryError: CUDA out of memory." in "\n".join(lines[7:-2])
    assert not any(line.startswith("  0: ") for line in lines)
    assert lines[-2] == "Done:         job 8 submitted"
    assert lines[-1].startswith("To do:        ")


def test_what_to_do_can_be_typed_in_any_folder(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    path = the_run(fake, log="1: Segmentation fault (core dumped)\n")
    with (path / "job.sh").open("a") as file:
        file.write("OUTLAST_ROOT='/opt/out last'\n")
    assert commands.main(["report", "r1"]) == 0
    own = f"{fake.root}/bin/outlast crash {path}/logs/7.0.1.log --explain"
    assert capsys.readouterr().out.splitlines()[-1] == f"To do:        nothing. If it comes back: {own}"
    assert commands.main(["report", "r1", "--write"]) == 0
    written = (path / "reports/7.0.1.txt").read_text().splitlines()[-1]
    assert written.endswith(f": '/opt/out last/bin/outlast' crash {path}/logs/7.0.1.log --explain")


def test_so_can_the_resume_of_a_report(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    path = the_run(fake, "7 held why=max_jobs")
    assert commands.main(["report", "r1"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"To do:        {fake.root}/bin/outlast resume {path}"
    assert commands.main(["report", "r1", "--write"]) == 0
    assert f"To do:        outlast resume {path}\n" in (path / "reports/7.0.1.txt").read_text()
    assert f"<code>outlast resume {path}</code>" in (path / "report.html").read_text()


def test_secrets_are_masked_in_text_json_and_html(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    path = the_run(fake, log=OOM + "0: WANDB_API_KEY=0123456789abcdef\n")
    assert commands.main(["report", "r1", "--write"]) == 0
    assert commands.main(["report", "r1", "--json"]) == 0
    told = [file.read_text() for file in [*sorted((path / "reports").iterdir()), path / "report.html"]]
    assert len(told) == 3
    for text in [*told, capsys.readouterr().out]:
        assert "login" in text or "OutOfMemory" in text
        assert "hf_abc" not in text
        assert "0123456789abcdef" not in text


def test_the_head_of_the_page_is_masked(fake: Fake) -> None:
    path = the_run(fake, "7 held why=https://ada:hunter2@mirror todo=https://ada:hunter2@mirror")
    assert commands.main(["report", "r1", "--write"]) == 0
    assert "ada:***@mirror" in (path / "report.html").read_text()
    assert "hunter2" not in (path / "report.html").read_text()


def test_what_a_log_says_is_no_html_and_no_terminal_code(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    path = the_run(fake, log="1: <script>alert(1)</script>\n1: \x1b]0;title\x07RuntimeError: <b>bad</b>\n")
    assert commands.main(["report", "r1", "--write"]) == 0
    assert commands.main(["report", "r1"]) == 0
    html = (path / "report.html").read_text()
    assert "<script" not in html
    assert "&lt;b&gt;bad" in html
    assert "\x1b" not in capsys.readouterr().out


def test_a_report_is_written_once_and_then_left_alone(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    path = the_run(fake, log=OOM)
    assert commands.main(["report", "r1", "--write"]) == 0
    assert capsys.readouterr().out == f"report: {path / 'reports/7.0.1.txt'}\n"
    assert json.loads((path / "reports/7.0.1.json").read_text())["verdict"]["pattern"] == "gpu_oom"
    (path / "logs/7.0.1.log").write_text("")
    assert commands.main(["report", "r1", "--write"]) == 0
    assert capsys.readouterr().out == ""
    assert "OutOfMemory" in (path / "reports/7.0.1.txt").read_text()


def test_the_log_of_the_attempt_may_lie_on_the_node(fake: Fake, tmp_path: Path) -> None:
    path = the_run(fake, "7 held why=max_jobs todo=outlast_resume_r1")
    (tmp_path / "log").write_text(OOM)
    for _ in range(2):
        assert commands.main(["report", "r1", "--write", "--log", f"7.0.1={tmp_path / 'log'}"]) == 0
    text = (path / "reports/7.0.1.txt").read_text()
    assert "gpu_oom" in text
    assert "held: max_jobs" in text
    assert "To do:        outlast_resume_r1" in text


def test_the_runs_own_patterns_are_tried_first(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    path = the_run(fake, log="1: TokenizerServerError: unreachable\n")
    (path / "patterns.toml").write_text(OWN_PATTERNS)
    assert commands.main(["report", "r1"]) == 0
    assert "tokenizer_server" not in capsys.readouterr().out  # the job does not want them
    with (path / "job.sh").open("a") as file:
        file.write("OUTLAST_CRASH_PATTERNS=/home/ada/mine.toml\n")
    assert commands.main(["report", "r1"]) == 0
    told = capsys.readouterr().out
    assert "Error pattern: tokenizer_server, config, transient" in told
    assert f"--patterns {path}/patterns.toml --explain" in told
    (path / "patterns.toml").write_text("torn")
    assert commands.main(["report", "r1"]) == 0
    assert "Error pattern: python_exception" in capsys.readouterr().out


def test_a_log_that_is_gone_leaves_the_ledgers_words(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    (the_run(fake) / "logs/7.0.1.log").unlink()
    assert commands.main(["report", "r1"]) == 0
    told = capsys.readouterr().out
    assert "evidence: broken" in told
    assert "Error pattern: unknown (broken)" in told


def test_what_is_not_there_is_said(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    the_run(fake)
    assert commands.main(["report", "r1", "8"]) == 1
    assert capsys.readouterr().err.startswith("outlast: no report of 8 in r1: ")
    assert commands.main(["report", "r1", "../8"]) == 2
    assert commands.main(["report", "r1", "--write", "--log", "x"]) == 2
    fake.run("r2", "- submitted successor=1")
    assert commands.main(["report", "r2"]) == 1


def test_a_job_of_another_folder_is_no_job(fake: Fake) -> None:
    path = the_run(fake, "../../7 ended class=crash")
    assert commands.main(["report", "r1", "--write"]) == 0
    assert sorted(file.name for file in (path / "reports").iterdir()) == ["7.0.1.json", "7.0.1.txt"]


# ── lines of a log ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_line_far_into_a_long_log_is_found(tmp_path: Path) -> None:
    log = tmp_path / "log"
    rows = [f"{number % 2}: step {number}\n" for number in range(300_000)]
    rows[250_000] = "0: RuntimeError: here\n"
    log.write_text("".join(rows))
    whose, lines = quote.around(log, 250_001)
    assert whose == quote.ONE
    assert "0: RuntimeError: here" in lines
    assert lines[0] == f"0: step {250_000 - 2 * quote.BEFORE}"
    assert lines[-1] == f"0: step {250_000 + 2 * quote.AFTER}"


def test_a_rank_that_said_nothing_is_shown_among_the_others(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("0: step 1\n" * 3 + "1: outlast: rank 1 on n1 ended with signal KILL at 5\n0: reset by peer\n")
    whose, lines = quote.around(log, 4)
    assert whose == quote.ALL
    assert lines == ["0: step 1", "1: outlast: rank 1 on n1 ended with signal KILL at 5", "0: reset by peer"]


def test_of_a_progress_bar_the_last_state_is_shown(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("10%\r20%\r30%\n")
    assert quote.end(log) == (quote.END, ["30%"])
