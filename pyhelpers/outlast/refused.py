"""What a person asked for and cannot have."""


class Refused(Exception):
    """The message is one line: what is wrong, where, and what to type instead.

    `status` is what the verb then exits with: 2 wrong usage, 1 could not, 75 try again later.
    """

    status = 2


def nearest(name: str, known: list[str]) -> str:
    """` (did you mean X?)` for the known name closest to name, or else the list of all of them."""
    import difflib  # only on the way to an error: render starts faster without it

    close = difflib.get_close_matches(name, known, n=1)
    if not close:
        return f" (known: {', '.join(sorted(known))})"
    return f" (did you mean {close[0]}?)"
