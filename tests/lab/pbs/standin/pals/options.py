"""mpiexec's words: `-n N --ppn P --hostfile F … program args`."""

from __future__ import annotations

from dataclasses import dataclass, field

# Long options that take a value, and those that take none; one dash will do for either.
WITH_VALUE = {
    "n", "np", "ppn", "hostfile", "hosts", "cpu-bind", "mem-bind", "gpu-bind", "depth", "d", "pmi", "env", "genv",
    "envlist", "wdir", "umask", "rlimits", "network", "line-limit",
}  # fmt: skip
WITHOUT = {"envall", "envnone", "genvall", "label", "l", "line-buffer", "no-vni", "no-transfer", "no-abort-on-failure"}


class Usage(Exception):
    """These words are not mpiexec's."""


@dataclass
class Options:
    values: dict[str, str] = field(default_factory=dict)
    env: list[str] = field(default_factory=list)
    program: list[str] = field(default_factory=list)

    def number(self, *names: str) -> int | None:
        """The value of the first of these that was given. Raises: Usage: it is no number."""
        for name in names:
            if name in self.values:
                if not self.values[name].isdigit():
                    raise Usage(f"invalid value for --{name}: {self.values[name]}")
                return int(self.values[name])
        return None

    def has(self, *names: str) -> bool:
        return any(name in self.values for name in names)


def parse(words: list[str]) -> Options:
    """Raises: Usage: an option is unknown, or there is no program."""
    found, left = Options(), list(words)
    while left and left[0].startswith("-"):
        word = left.pop(0)
        if word == "--":
            break
        name, equals, value = word.lstrip("-").partition("=")
        if name in WITHOUT:
            found.values[name] = ""
            continue
        if name not in WITH_VALUE:
            raise Usage(f"unrecognized option '{word}'")
        if not equals:
            if not left:
                raise Usage(f"option '{word}' requires an argument")
            value = left.pop(0)
        if name in ("env", "genv"):
            found.env.append(value)
        else:
            found.values[name] = value
    found.program = left
    if not left:
        raise Usage("no program given")
    return found
