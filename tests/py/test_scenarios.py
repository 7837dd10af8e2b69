"""docs/scenarios.md tells what the lab plays."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_of_scenarios_is_what_make_golden_would_write() -> None:
    code = "import sys; sys.path.insert(0, 'tests/lab'); import scenarios; sys.stdout.write(scenarios.collected())"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == (ROOT / "docs/scenarios.md").read_text()
