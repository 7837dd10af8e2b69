from pathlib import Path

from conftest import event

from outlast import ledger


def folded(*lines: str) -> ledger.Run:
    return ledger.fold(event(number, line) for number, line in enumerate(lines, 1))


def test_read_drops_a_torn_line_and_what_was_sent_twice(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    good = '{"t":5,"run":"r","job":"7","restart":0,"attempt":1,"seq":1,"event":"progress","step":30}\n'
    path.write_text('{"t":4,"run":"r","job":"7","res\n' + good + "\n" + good + '[1]\n{"t":6}\nnull\n')
    assert [(e.name, e.number("step")) for e in ledger.read(path)] == [("progress", 30)]


def test_read_puts_events_in_order_of_time(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    for number, name in ((9, "late"), (3, "early")):
        ledger.append(path, event(number, f"7 {name}"))
    assert [e.name for e in ledger.read(path)] == ["early", "late"]


def test_reader_leaves_a_line_that_is_still_being_written_for_the_next_call(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    ledger.append(path, event(1, "7 started"))
    line = path.read_text()
    reader = ledger.Reader(path)
    path.write_text(line[:20])
    assert reader.new() == []
    path.write_text(line)
    assert [e.name for e in reader.new()] == ["started"]
    assert reader.new() == []


def test_append_starts_a_line_of_its_own_behind_a_torn_one(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text('{"t":4,"run"')
    ledger.append(path, event(1, "- resumed by=ann"))
    assert [e.name for e in ledger.read(path)] == ["resumed"]


def test_parse_gives_back_what_append_wrote(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    written = event(1, '7 warned text=a"b\\c')
    ledger.append(path, written)
    assert ledger.read(path) == [written]


def test_fold_tells_the_chain_its_steps_and_how_each_job_ended() -> None:
    run = folded(
        "- submitted successor=1 by=ann",
        "1 started host=n1 durable_step=0",
        "1 progress step=100",
        "1 checkpoint_durable step=80",
        "1 submitted successor=2",
        "1 ended class=walltime then=submit step=110 durable_step=110",
        "2 started host=n2 durable_step=110",
    )
    assert list(run.jobs) == ["1", "2"]
    assert (run.jobs["1"].end, run.jobs["2"].parent) == ("walltime", "1")
    assert (run.step, run.durable_step) == (110, 110)
    assert [job.id for job in run.open_jobs()] == ["2"]


def test_fold_keeps_a_job_open_when_only_an_attempt_has_ended() -> None:
    run = folded("1 started", "1 ended class=crash then=relaunch step=40")
    assert [job.id for job in run.open_jobs()] == ["1"]


def test_fold_ends_a_job_that_submits_instead_of_launching_again() -> None:
    run = folded("1 started", "1 ended class=crash then=relaunch", "1 submitted successor=2")
    assert (run.jobs["1"].end, [job.id for job in run.open_jobs()]) == ("crash", ["2"])
    run = folded("1 started", "1 ended class=crash then=relaunch", "1 launched", "1 submitted successor=2")
    assert [job.id for job in run.open_jobs()] == ["1", "2"]


def test_fold_opens_a_requeued_job_again_when_it_starts() -> None:
    run = folded("1 started", "1 ended class=requeued then=leave", "1 started")
    assert [job.id for job in run.open_jobs()] == ["1"]


def test_fold_forgets_a_hold_when_somebody_resumed_the_run() -> None:
    events = ("1 started", "1 held why=stuck todo=look")
    assert folded(*events).held == "stuck"
    assert folded(*events, "- resumed by=ann").held == ""


def test_fold_ignores_an_event_it_does_not_know() -> None:
    assert folded("1 started", "1 swapped out=n1").jobs.keys() == {"1"}
