"""qhold, qrls and qrerun: a job's id is all they need."""

from __future__ import annotations

from standin import client

REQUEST = {"qhold": "hold", "qrls": "release", "qrerun": "rerun"}


def main(words: list[str]) -> int:
    name = client.program()
    _, ids = client.options(words, "h:W:", f"usage: {name} job_identifier...")
    if not ids:
        client.fail(f"usage: {name} job_identifier...", 2)
    return client.each(ids, lambda job: client.ask(REQUEST[name], host=client.host(), job_id=job))
