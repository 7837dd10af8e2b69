"""Where runs are looked for by name, and the file of bad nodes."""

import os
from collections.abc import Mapping
from pathlib import Path

from outlast import rundir, site, toml


def user_file(env: Mapping[str, str]) -> Path:
    """Where the user keeps what is personal: account, mail address."""
    return Path(env.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")) / "outlast/config.toml"


def of_runs(root: Path, env: Mapping[str, str], user_file: Path) -> list[str]:
    """Folders that hold runs, as glob patterns, each once: OUTLAST_RUNS, the user's own, then those of the sites.

    Raises: Refused: the user's file or a site's is wrong.
    """
    patterns = [env["OUTLAST_RUNS"]] if env.get("OUTLAST_RUNS") else []
    patterns += _of_user(user_file, "runs_dir")
    outside = site.outside([], env)
    patterns += [site.load(root, name, outside).runs_dir for name in site.names(root, outside)]
    # Which account it was is not known here: any.
    return list(dict.fromkeys(rundir.filled(pattern, "*", env).rstrip("/") for pattern in patterns if pattern))


def of_own_runs(root: Path, env: Mapping[str, str], user_file: Path) -> list[str]:
    """Those of them in which this user's runs are: OUTLAST_RUNS, and those of sites for which their file has an
    account or a runs_dir.

    Raises: Refused: as of_runs.
    """
    patterns = [rundir.filled(env["OUTLAST_RUNS"], "*", env)] if env.get("OUTLAST_RUNS") else []
    table = toml.read(user_file, str(user_file)) if user_file.is_file() else {}
    by_site, outside = table.get("site"), site.outside([], env)
    for name in site.names(root, outside):
        of_site = by_site.get(name) if isinstance(by_site, Mapping) else None
        own = {**table, **(of_site if isinstance(of_site, Mapping) else {})}
        if own.get("account") or own.get("runs_dir"):
            pattern = str(own.get("runs_dir") or site.load(root, name, outside).runs_dir)
            patterns.append(rundir.filled(pattern, str(own.get("account") or "*"), env))
    return list(dict.fromkeys(pattern.rstrip("/") for pattern in patterns))


def of_bad_nodes(root: Path, env: Mapping[str, str], user_file: Path) -> list[str]:
    """Files of bad nodes, as glob patterns: the user's own, then those beside runs.

    Raises: Refused: as of_runs.
    """
    own = [rundir.filled(pattern, "*", env) for pattern in _of_user(user_file, "bad_nodes")]
    return list(dict.fromkeys(own + [f"{place}/bad_nodes.txt" for place in of_runs(root, env, user_file)]))


def _of_user(user_file: Path, key: str) -> list[str]:
    if not user_file.is_file():
        return []
    table = toml.read(user_file, str(user_file))
    sites = table.get("site")
    tables = [table, *(sites.values() if isinstance(sites, Mapping) else [])]
    return [str(t[key]) for t in tables if isinstance(t, Mapping) and t.get(key)]
