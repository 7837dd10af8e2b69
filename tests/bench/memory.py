"""Memory, for who is measured on it."""

import mmap


def warm(size: int) -> None:
    """Touch so many bytes and give them back, just before something is measured that fills as many.

    Below a virtual machine the host takes back what is free for some seconds. Who touches it first has to wait for it,
    several times as long as for the copy.
    """
    with mmap.mmap(-1, size) as room:
        for at in range(0, size, mmap.PAGESIZE):
            room[at] = 1
