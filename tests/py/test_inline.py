import subprocess
from pathlib import Path

import pytest
import trees

from outlast import inline
from outlast.refused import Refused

AWKWARD = ["", "a b", "it's", '"$HOME" `id`', "a\nb", "{ckpt_dir}", "batch", "ü", "-n", "\\"]


def bash(script: str) -> str:
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("text", AWKWARD)
def test_value_is_one_word_with_the_same_text(text: str) -> None:
    assert bash(f"x={inline.value(text)}; printf '%s' \"$x\"") == text


def test_words_are_the_same_words() -> None:
    assert bash(f"x=({inline.words(tuple(AWKWARD))}); printf '%s\\0' \"${{x[@]}}\"").split("\0")[:-1] == AWKWARD


def test_value_leaves_the_user_to_the_script() -> None:
    assert bash(f"USER=bob; printf '%s' {inline.value('/lus/{user_initial}/{user}/x')}") == "/lus/b/bob/x"


def test_value_does_not_run_what_a_person_typed() -> None:
    assert bash(f"printf '%s' {inline.value('{user}$(echo hi)')}").endswith("$(echo hi)")


@pytest.mark.parametrize(
    ("text", "message"),
    [("/lus/{usr}/x", r"has \{usr\} \(did you mean \{user\}\?\)"), ("lus/x", "is no absolute path"), ("/a{", "has {")],
)
def test_folder_refuses(text: str, message: str) -> None:
    with pytest.raises(Refused, match=message):
        inline.folder("runs_dir", text)


def test_inliner_copies_a_file_without_its_line_for_shellcheck(tmp_path: Path) -> None:
    copy = inline.Inliner(trees.make(tmp_path))
    assert copy("log") == trees.LOG.split("\n", 1)[1]


def test_inliner_refuses_a_file_without_those_that_it_needs(tmp_path: Path) -> None:
    trees.write(tmp_path / "lib/ledger.sh", "# Needs    log, bounded\n")
    copy = inline.Inliner(trees.make(tmp_path))
    copy("log", "ledger")
    with pytest.raises(Refused, match=r"lib/ledger.sh without lib/bounded.sh"):
        copy.check()


def test_inliner_names_a_file_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"lib/nothing\.sh: No such file"):
        inline.Inliner(trees.make(tmp_path))("nothing")


@pytest.mark.parametrize(
    ("header", "names"),
    [("# Needs    nothing", []), ("# Needs    log, scheduler/slurm", ["log", "scheduler/slurm"]), ("# Note", [])],
)
def test_needs_reads_the_header(header: str, names: list[str]) -> None:
    assert inline.needs(f"# lib/x.sh - x\n#\n{header}\n\nol_x() {{ :; }}\n") == names
