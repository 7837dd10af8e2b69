"""From files to a verdict: what `outlast crash` and the job's own decision call."""

import json
from collections.abc import Iterator
from pathlib import Path

from outlast.crash import judge, names, scan, source
from outlast.crash.patterns import Book
from outlast.crash.verdict import Verdict
from outlast.refused import Refused


class LayoutError(Refused):
    """What was said about hosts and ranks can't be read."""


def layout(hosts: Path | None, ranks_per_node: int, rank_map: Path | None, ip_map: Path | None) -> names.Layout:
    """Hosts and ranks as the caller knows them: a host file with the ranks in its order, or a map rank -> host.

    Raises: LayoutError: a file can't be read or says no such thing.
    """
    made = names.Layout()
    if hosts:
        made.given = host_list(_text(hosts))
        if not made.given:
            raise LayoutError(f"{hosts}: no host in it")
        if ranks_per_node:
            count = len(made.given) * ranks_per_node
            made.ranks = {rank: made.given[rank // ranks_per_node] for rank in range(min(count, names.MOST))}
    if rank_map:
        made.ranks = {int(rank): host for rank, host in _map(rank_map).items() if rank.isdecimal()}
    if ip_map:
        made.addresses = _map(ip_map)
    return made


def host_list(text: str) -> list[str]:
    """Hosts of a host file, each once, in order: a line each (PBS_NODEFILE, Open MPI), or Slurm's short form."""
    found: list[str] = []
    for line in text.splitlines():
        words = line.split("#", 1)[0].split()
        if words:
            found += names.hosts(words[0])
    return list(dict.fromkeys(found))


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError as err:
        raise LayoutError(f"{path}: {err.strerror}") from err


def _map(path: Path) -> dict[str, str]:
    try:
        table = json.loads(_text(path))
    except ValueError as err:
        raise LayoutError(f"{path}: {err}") from err
    if not isinstance(table, dict) or not all(isinstance(host, str) for host in table.values()):
        raise LayoutError(f'{path}: write {{"0": "HOST", …}}')
    return {str(key): names.short(host) for key, host in table.items() if names.short(host)}


def once(logs: list[Path], where: names.Layout, book: Book, exit_code: int | None, scheduler: str) -> Verdict:
    """The verdict of logs that are complete.

    Raises: SourceError: one can't be read.
    """
    return judge.judge(_read(logs, where, book).seen, book, exit_code, scheduler)


def _read(logs: list[Path], where: names.Layout, book: Book) -> scan.Scanner:
    scanner = scan.Scanner(book, where)
    for log in logs:
        scanner.add(source.opened(log))
    scanner.read()
    return scanner


def growing(logs: list[Path], where: names.Layout, book: Book, scheduler: str) -> Iterator[Verdict | None]:
    """At each step reads what is new, and gives the verdict if that changed, else None. It never ends.

    Raises: SourceError: a log can't be read.
    """
    scanner = scan.Scanner(book, where)
    for log in logs:
        scanner.add(source.opened(log))
    last = ""
    while True:
        news = scanner.read(growing=True)
        if not news and last:
            yield None
            continue
        found = judge.judge(scanner.seen, book, None, scheduler)
        told = f"{found.fingerprint} {found.blame_nodes} {found.action}"
        yield found if told != last else None
        last = told
