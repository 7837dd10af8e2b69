"""Memory, for who is measured on it."""

import mmap

import psutil


def warm(size: int) -> None:
    """Touch so many bytes, or half of what is available, and give them back, just before something fills as many.

    Below a virtual machine the host takes back what is free for some seconds. Who touches it first has to wait for it,
    several times as long as for the copy.
    """
    with mmap.mmap(-1, max(mmap.PAGESIZE, min(size, psutil.virtual_memory().available // 2))) as room:
        for at in range(0, len(room), mmap.PAGESIZE):
            room[at] = 1
