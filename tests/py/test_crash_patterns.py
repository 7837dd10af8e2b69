"""The book of patterns: every example is a test, and a user's own file is read the same way."""

import re
import subprocess
import time
from pathlib import Path

import corpus
import crash_page
import pytest

from outlast.crash import analyse, names, patterns, scan, source, text

BOOK = patterns.load()
FORMS = [(pattern, form) for pattern in BOOK.patterns for form in pattern.forms]

OWN = """
[[pattern]]
name = "coffee_machine"
says = "The coffee machine tripped the fuse"
scope = "hardware"
persistence = "transient"
action = "retry"
blame = "none"
[[pattern.form]]
words = ["fuse"]
regex = 'fuse (?P<key>\\w+) is out'
example = "FATAL fuse F7 is out"
source = "the kitchen"
"""


def scanned(line: str, tmp_path: Path, book: patterns.Book = BOOK) -> list[scan.Event]:
    log = tmp_path / "job.log"
    log.write_text(line + "\n")
    scanner = scan.Scanner(book, names.Layout())
    scanner.add(source.opened(log))
    scanner.read()
    return scanner.seen.events


@pytest.mark.parametrize(("pattern", "form"), FORMS, ids=[f"{p.name}-{p.forms.index(f)}" for p, f in FORMS])
def test_an_example_is_taken_by_its_own_form(pattern: patterns.Pattern, form: patterns.Form, tmp_path: Path) -> None:
    (event,) = scanned(form.example, tmp_path)
    assert (event.pattern.name, event.form.example) == (pattern.name, form.example)


@pytest.mark.parametrize("noise", BOOK.noise, ids=lambda noise: noise.why[:40])
def test_noise_is_no_event(noise: patterns.Noise, tmp_path: Path) -> None:
    assert noise.regex.search(noise.example)
    assert [event.name for event in scanned(noise.example, tmp_path) if 1 <= event.tier <= 3] == []


def test_the_page_is_that_of_the_book() -> None:
    assert crash_page.PAGE.read_text() == crash_page.page(BOOK), "type make golden"


def test_no_expression_takes_long_on_a_hostile_line() -> None:
    for hostile in (
        "a" * 4000,
        "Error: " * 600,
        "NCCL WARN " + "1.2.3.4<5> " * 300,
        "'" * 4000,
        "gloo/" * 800,
        "(" * 4000,
    ):
        for _, form in FORMS:
            began = time.process_time()
            form.regex.search(hostile)
            assert time.process_time() - began < 0.5, (form.regex.pattern, hostile[:10])
        began = time.process_time()
        text.read(hostile)
        assert time.process_time() - began < 0.5, hostile[:10]


def test_ones_own_patterns_are_tried_first(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text(OWN)
    (event,) = scanned(
        "RuntimeError: CUDA error: fuse F7 is out, illegal memory access was encountered", tmp_path, patterns.load(own)
    )
    assert (event.name, event.key) == ("coffee_machine", "F7")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('scope = "hardware"\n', "", "has no scope"),
        ('action = "retry"', 'action = "pray"', "action is one of retry-exclude, retry, stop, done, none, not 'pray'"),
        ('words = ["fuse"]', "words = []", "a form needs words"),
        ('words = ["fuse"]', 'words = ["kettle"]', "the example has none of the words"),
        ("is out'", "is (out'", "is no regular expression"),
        ("[[pattern]]", "[[patern]]", "no key 'patern'"),
        ("says", "sais", "no key 'sais'"),
        ('is out"', 'is in"', "is not found in the example"),
    ],
)
def test_a_broken_file_of_patterns_is_refused_in_one_line(old: str, new: str, said: str, tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text(OWN.replace(old, new, 1))
    with pytest.raises(patterns.PatternError, match=re.escape(said)):
        patterns.load(own)


HEALTHY = (corpus.ROOT / "healthy.txt").read_text()


@pytest.mark.parametrize("line", HEALTHY.splitlines())
def test_the_lines_that_fill_a_log_have_none_of_the_words(line: str) -> None:
    # Each such line would leave grep for Python: gigabytes would take hours.
    assert [word for word in scan.Scanner(BOOK, names.Layout()).words if word in line] == []


def test_words_go_to_grep_as_they_are() -> None:
    words = ["Errno 5]", "a|b", "(x)", "^y", "z$", "w.w", "c*", "b[", "q?{2}", "back\\slash"]
    for word in words:
        call = ["grep", "-cE", "-e", source.posix(word)]
        assert subprocess.run(call, input=f"- {word} -\n", capture_output=True, text=True).stdout == "1\n", word


def test_a_host_file_gives_each_host_once_in_order() -> None:
    assert analyse.host_list("n2.site.org slots=8\nn1\n# n9\nn2.site.org\nf[008-010,3]\n") == [
        "n2",
        "n1",
        "f008",
        "f009",
        "f010",
        "f3",
    ]
