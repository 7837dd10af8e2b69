"""The very bytes of the site's own smoke job prove that the site works."""

from __future__ import annotations

import pytest
from harness import CHECKOUT, Lab


@pytest.mark.extra
def test_the_bytes_of_the_smoke_job_resume_in_a_second_job_and_finish(lab: Lab) -> None:
    lab.run = "smoke"
    text = lab.alice(str(CHECKOUT / "bin/render"), lab.site, "smoke", "--account", "abc123")
    lab.write("job.sh", text)
    first = lab.submit()
    lab.finish(400)
    assert lab.endings() == ["walltime", "done"]
    assert not lab.events("checkpoint_torn")
    lab.assert_resumed()
    assert lab.durable_steps()[-1] == 120
    (second,) = lab.successors(first)
    said = lab.log(first) + lab.log(second)
    assert "smoke: bad" not in said
    for check in ("rank shim", "storage", "master", "submit", "resume"):
        assert f"smoke: ok {check}: " in said
