"""Opens files of a checkpoint: only regular ones, since a pipe in their place would be waited for without an end."""

from __future__ import annotations

import errno
import io
import os
import stat
from pathlib import Path
from typing import BinaryIO, cast


class NotPlainError(OSError):
    """A folder, a pipe, a socket or a device."""


def opened(path: Path) -> BinaryIO:
    """The file, open for reading.

    Raises: NotPlainError; OSError.
    """
    return cast(BinaryIO, io.BufferedReader(raw(path)))


def raw(path: Path) -> io.FileIO:
    """The same, for reads of many bytes at once.

    Raises: NotPlainError; OSError.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise NotPlainError(errno.EINVAL, "it is no plain file", str(path))
    return io.FileIO(handle)


def is_plain(path: Path) -> bool:
    """Is it a regular file, and no link to one?

    Raises: OSError.
    """
    return stat.S_ISREG(path.lstat().st_mode)
