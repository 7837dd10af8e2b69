"""Why a letter did not leave this machine."""


class Unsent(Exception):
    """The message is one line for a person: by which way, and what was answered. It has no secrets in it."""
