"""PBS's mails (facts §8)."""

from __future__ import annotations

import subprocess

from standin.book import Job


def send(job: Job, event: str, text: str, always: bool = False) -> None:
    """To `-M`, else the owner; `event` is one of a, b, e and is wanted by default (`a`) or by `-m`."""
    if event not in str(job.get("Mail_Points", "a")) and not always:
        return
    to = str(job.get("Mail_Users") or job.get("Job_Owner"))
    body = f"PBS Job Id: {job.id}\nJob Name:   {job.name}\n{text}\n"
    subprocess.run(["mail", "-s", f"PBS JOB {job.id}", to], input=body.encode(), check=False)
