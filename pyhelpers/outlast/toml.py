"""One TOML file, read."""

import tomllib
from pathlib import Path

from outlast.refused import Refused


def read(path: Path, where: str) -> dict[str, object]:
    """The tables of a TOML file; `where` names the file in messages.

    Raises: Refused: it can't be read, or is not TOML (with the line).
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as err:
        raise Refused(f"{where}: {getattr(err, 'strerror', None) or err}") from err
    except tomllib.TOMLDecodeError as err:
        raise Refused(f"{where}: {err}") from err
