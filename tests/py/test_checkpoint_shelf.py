"""One checkpoint alone, as a job on shared storage asks for it (lib/whole.sh)."""

from pathlib import Path

import pytest

from outlast import commands
from outlast.checkpoint.listing import scan


def test_of_a_folder_is_seen_one_checkpoint_and_the_plain_files_that_may_name_it(tmp_path: Path) -> None:
    for name in ("global_step20/a.pt", "global_step40/a.pt", "latest", ".hidden"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    assert [file.path for file in scan(tmp_path, "global_step20")] == ["global_step20/a.pt", "latest"]


def test_what_is_no_checkpoint_is_unknown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes").mkdir()
    assert commands.main(["sidecar", "judge", str(tmp_path / "notes"), "iter_", "", "0", "gone", "0", "1"]) == 0
    assert capsys.readouterr().out == "unknown\tit is no checkpoint\n"
