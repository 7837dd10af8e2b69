"""docs/crash-patterns.md, written from patterns.toml: `make golden` does it."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/crash-patterns.md"
sys.path.insert(0, str(ROOT / "pyhelpers"))

from outlast.crash import patterns  # noqa: E402

HEAD = """# Patterns of `outlast crash`

Written by `make golden` from [patterns.toml](../pyhelpers/outlast/crash/patterns.toml), in the order in which they are
tried; [crash.md](crash.md#your-own-patterns) says how to add your own.

- **tier**: 1 a cause; 2 a cause unless something stronger is there; 3 mostly the echo of another failure; 4 said by
  processes that are being ended; 0 the scheduler's word, or the run's, on the end.
- **blame**: `node` where it is written, or the host that the line names; `peer` the silent other side; `late` the rank
  that did not arrive; `few` the node, if it is one alone; `rank` the rank without its node; `none` nobody.
- **otherwise**: what differs when it comes *early* (before or within the first steps) or *late*, on *many* nodes, on
  *one* of several, by a *few* (one rank), and when the one to blame is *clear* or *unclear*.
"""


def page(book: patterns.Book) -> str:
    """The page, in Markdown."""
    parts = [HEAD]
    for pattern in book.patterns:
        parts.append("\n".join(_pattern(pattern)))
    parts.append(
        "## What is no failure\n\n" + "\n".join(f"- {noise.why}: `{_code(noise.example)}`" for noise in book.noise)
    )
    return "\n\n".join(parts) + "\n"


def _pattern(pattern: patterns.Pattern) -> list[str]:
    told = {key: value for key, value in pattern.outcome.items() if key != "as"}
    called = pattern.outcome.get("as", pattern.name)
    rows = [f"## {pattern.name}", "", f"{pattern.says}." + f" Told as `{called}`." * (called != pattern.name), ""]
    rows += [", ".join(f"{key} **{value}**" for key, value in told.items()) + "."]
    for case, other in pattern.cases.items():
        rows.append(f"Otherwise, {case}: " + ", ".join(f"{key} {value}" for key, value in other.items()) + ".")
    if pattern.gives_way_to:
        rows.append(f"Gives way to {', '.join(pattern.gives_way_to)}.")
    rows += ["", "| tier | example | source |", "| --- | --- | --- |"]
    rows += [f"| {form.tier} | `{_code(form.example)}` | {_cell(form.source)} |" for form in pattern.forms]
    return rows


def _code(text: str) -> str:
    return _cell(text.replace("`", "'").strip()[:240])


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


if __name__ == "__main__":
    PAGE.write_text(page(patterns.load()))
