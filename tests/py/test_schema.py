from dataclasses import dataclass, field

import pytest

from outlast import schema
from outlast.refused import Refused


@dataclass(frozen=True)
class Inner:
    keep: int = 3


@dataclass(frozen=True)
class Outer:
    name: str
    count: int = 1
    on: bool = False
    words: tuple[str, ...] = schema.words()
    lines: tuple[str, ...] = ()
    kind: str = schema.choice("shared", "local")
    env: dict[str, str] = field(default_factory=dict)
    inner: Inner = field(default_factory=Inner)


def record(**table: object) -> Outer:
    made: Outer = schema.record(Outer, {"name": "n", **table}, "f.toml")
    return made


def test_record_fills_in_defaults_of_nested_tables() -> None:
    assert record(inner={}) == Outer("n")


@dataclass(frozen=True)
class Origin:
    from_: str = ""


def test_a_key_may_be_a_word_of_python() -> None:
    made: Origin = schema.record(Origin, {"from": "r1"}, "f.toml")
    assert made.from_ == "r1"
    assert schema.flattened(made) == {"from": "r1"}
    with pytest.raises(Refused, match="unknown key from_"):
        schema.record(Origin, {"from_": "r1"}, "f.toml")


def test_record_splits_a_text_of_words_as_a_shell_does() -> None:
    assert record(words="a 'b c' d").words == ("a", "b c", "d")


def test_record_takes_one_line_as_a_list_of_one() -> None:
    assert record(lines="source x && y").lines == ("source x && y",)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"cuont": 1}, r"f.toml: unknown key cuont \(did you mean count\?\)"),
        ({"inner": {"kep": 1}}, r"f.toml: unknown key inner.kep \(did you mean inner.keep\?\)"),
        ({"count": "1"}, "f.toml: count is a whole number, 0 or more, not '1'"),
        ({"count": -1}, "f.toml: count is a whole number, 0 or more, not -1"),
        ({"count": True}, "f.toml: count is a whole number, 0 or more, not True"),
        ({"on": 1}, "f.toml: on is true or false, not 1"),
        ({"kind": "lcoal"}, "f.toml: kind is one of shared, local, not 'lcoal'"),
        ({"words": "a 'b"}, "f.toml: words has no closing quotation"),
        ({"lines": [1]}, r"f.toml: lines is a list of texts, not \[1\]"),
        ({"env": {"A": 1}}, "f.toml: env.A is a text, not 1"),
        ({"inner": 3}, "f.toml: unknown key inner"),
    ],
)
def test_record_refuses_and_says_where_and_what(table: dict[str, object], message: str) -> None:
    with pytest.raises(Refused, match=message):
        record(**table)


def test_record_refuses_a_missing_key() -> None:
    with pytest.raises(Refused, match=r"f\.toml: name is missing"):
        schema.record(Outer, {}, "f.toml")


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("count", "12", 12),
        ("on", "true", True),
        ("name", "12", "12"),
        ("words", "a b", ("a", "b")),
        ("lines", '["a, b", "c"]', ("a, b", "c")),
    ],
)
def test_parsed_reads_text_by_the_type_of_its_key(key: str, text: str, value: object) -> None:
    assert schema.parsed(key, text, schema.keys(Outer)[key], "--set") == value


@pytest.mark.parametrize(
    ("key", "text"), [("count", "many"), ("count", "٣"), ("count", "9" * 5000), ("on", "yes"), ("lines", '["a"')]
)
def test_parsed_refuses_text_of_another_type(key: str, text: str) -> None:
    with pytest.raises(Refused, match=f"--set: {key} is "):
        schema.parsed(key, text, schema.keys(Outer)[key], "--set")


def test_flattened_gives_dotted_keys_in_order() -> None:
    flat = schema.flattened(record(env={"B": "2", "A": "1"}))
    assert [key for key in flat if "." in key] == ["env.A", "env.B", "inner.keep"]
