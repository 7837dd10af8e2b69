"""Wrong usage is one line: what is wrong, and what to type."""

import argparse
import re
from typing import NoReturn

from outlast.refused import Refused


class Parser(argparse.ArgumentParser):
    """A parser whose error is one line, without the block of usage in front."""

    def error(self, message: str) -> NoReturn:
        """Raises: Refused."""
        raise wrong(self.prog, message)


def wrong(program: str, message: str) -> Refused:
    """What a parser says about the words behind `program`, as one line."""
    bare = re.fullmatch(r"argument (?:-\w/)?(--[a-z-]+): expected one argument", message)
    if bare:
        message = f"{bare[1]} takes a value; one that begins with - is typed {bare[1]}=VALUE"
    text = re.sub(r"[\s\x00-\x1f\x7f]+", " ", message).strip(" .")
    return Refused(f"{text[:1].lower()}{text[1:]}; {program} --help says what it takes")
