"""Where a job's values come from: preset, site, job file, user file, command line; the later one wins."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from outlast import job as jobs
from outlast import preset as presets
from outlast import schema, spares, toml, tree
from outlast import site as sites
from outlast.refused import Refused, nearest


@dataclass(frozen=True)
class Layer:
    """Values with their common origin, in words."""

    origin: str
    values: schema.Flat


@dataclass(frozen=True)
class Plan:
    """All that a script is rendered from; `origins` says for each key of the job where its value came from.

    `remark` is what a person should hear of it, or empty. `allocated`: its nodes and its time are there already.
    """

    site: sites.Site
    folder: Path  # the site's own
    preset: presets.Preset
    name: str
    job: jobs.Job
    origins: dict[str, str]
    remark: str = ""
    allocated: bool = False


def plan(
    root: Path,
    site_name: str,
    job_name: str,
    user_file: Path,
    typed: Mapping[str, object],
    outside: Sequence[Path] = (),
) -> Plan:
    """The site, the job and its preset, with all layers merged; not yet checked against the site.

    Sites are looked for in the folders `outside` first.

    Raises: Refused: an unknown site, job, preset or key, or a value of a wrong type.
    """
    site = sites.load(root, site_name, outside)
    folder = sites.home(root, site_name, outside)
    path = job_path(folder, job_name)
    own = [
        Layer(f"site {site_name}", sites.as_job(site)),
        Layer(f"job {tree.short(root, path)}", job_file(root, path)),
        *user_layers(user_file, site_name, sites.names(root, outside)),
        Layer("command line", dict(typed)),
    ]
    preset_name = str(merged(own)[0].get("preset", jobs.KEYS["preset"].default))
    preset = presets.load(preset_name)
    values, origins = merged([Layer(f"preset {preset_name}", presets.as_job(preset)), *own])
    job: jobs.Job = schema.build(jobs.Job, {"run": path.stem, **values}, tree.short(root, path))
    remark = ""
    if "spares" not in values:
        count, remark = spares.usual(site, job.queue, job.nodes, job.walltime_s, job.chain)
        job = replace(job, spares=count)
        origins["spares"] = spares.WHY
    return Plan(site, folder, preset, path.stem, job, origins, remark)


def placed(plan: Plan, here: Path) -> Plan:
    """The plan with project_dir and crash.patterns from the root on, as a shell in the folder `here` takes them.

    Raises: Refused: `~NAME` is nobody's home.
    """
    job = plan.job
    crash = replace(job.crash, patterns=_placed("crash.patterns", job.crash.patterns, here))
    return replace(plan, job=replace(job, project_dir=_placed("project_dir", job.project_dir, here), crash=crash))


def _placed(key: str, text: str, here: Path) -> str:
    if not text or text.startswith(("/", "{home}")):
        return text
    try:
        path = here / Path(text).expanduser()
    except RuntimeError as err:
        raise Refused(f"{key} {text!r} is in nobody's home; type the whole path") from err
    return str(path.resolve())


def merged(layers: list[Layer]) -> tuple[schema.Flat, dict[str, str]]:
    """The last value of each key, and its origin; of `env` each name counts by itself."""
    values: schema.Flat = {}
    origins: dict[str, str] = {}
    env: dict[str, object] = {}
    for layer in layers:
        for key, value in layer.values.items():
            values[key], origins[key] = value, layer.origin
            if isinstance(value, Mapping):
                env |= value
                origins |= {f"{key}.{name}": layer.origin for name in value}
    return values | ({"env": env} if env else {}), origins


def job_path(folder: Path, name: str) -> Path:
    """The file of a job: a path as typed (it has a slash or ends in .toml), or a name in the folder of a site.

    Raises: Refused: there is no such job (with the nearest name).
    """
    if "/" in name or name.endswith(".toml"):
        return Path(name)
    known = sites.jobs_in(folder)
    if name not in known:
        raise Refused(f"{folder.name} has no job {name}{nearest(name, known)}")
    return folder / f"{name}.toml"


def job_file(root: Path, path: Path) -> schema.Flat:
    """The values of a job file.

    Raises: Refused: it can't be read, has an unknown key or a value of a wrong type.
    """
    where = tree.short(root, path)
    return schema.flat(toml.read(path, where), jobs.KEYS, where)


def user_layers(path: Path, site: str, known: list[str]) -> list[Layer]:
    """The values of the user's own file: for all sites, then those under [site.NAME]. None where there is no file.

    Raises: Refused: as job_file, or a [site.NAME] that is no site.
    """
    if not path.is_file():
        return []
    table = toml.read(path, str(path))
    by_site = table.pop("site", {})
    if not isinstance(by_site, Mapping):
        raise Refused(f"{path}: site is a table for each site, such as [site.{site}]")
    for name, value in by_site.items():
        if not isinstance(value, Mapping):
            raise Refused(f"{path}: site.{name} is a table, [site.{name}], not {value!r}")
    layers = {name: schema.flat(v, jobs.KEYS, f"{path}: [site.{name}]") for name, v in by_site.items()}
    for name in layers.keys() - set(known):
        raise Refused(f"{path}: [site.{name}] is no site{nearest(name, known)}; one of your own takes OUTLAST_SITES")
    common = schema.flat(table, jobs.KEYS, str(path))
    return [Layer(f"user file {path}", common), Layer(f"user file {path}, [site.{site}]", layers.get(site, {}))]


def assignment(text: str, where: str = "--set") -> tuple[str, object]:
    """Key and value of `--set KEY=VALUE`; `env.NAME=VALUE` sets one variable.

    Raises: Refused: no `=`, an unknown key, or a value of a wrong type.
    """
    key, equals, value = text.partition("=")
    if not equals:
        raise Refused(f"{where} takes KEY=VALUE, not {text!r}")
    if key.startswith("env."):
        return "env", {key.removeprefix("env."): value}
    if key not in jobs.KEYS or key == "env":
        raise Refused(f"{where}: unknown key {key}{nearest(key, list(jobs.KEYS))}")
    return key, schema.parsed(key, value, jobs.KEYS[key], where)


def assignments(texts: list[str]) -> schema.Flat:
    """All `--set` of a command line; a later one wins, variables of `env` add up.

    Raises: Refused: as assignment.
    """
    return merged([Layer("", dict([assignment(text)])) for text in texts])[0]


def duration_s(text: str) -> int:
    """Seconds of a walltime as typed: `24:00:00`, `1-12:00:00`, `90m`, `2h`, `45s`, `3d`.

    Raises: Refused: anything else, a bare number too: Slurm takes it as minutes, PBS as seconds.
    """
    import re

    clock = re.fullmatch(r"(?:([0-9]{1,6})-)?([0-9]{1,6}):([0-5][0-9]):([0-5][0-9])", text)
    if clock:
        days, hours, minutes, seconds = (int(part or 0) for part in clock.groups())
        return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    unit = re.fullmatch(r"([0-9]{1,9})([smhd])", text)
    if unit:
        return int(unit[1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[unit[2]]
    raise Refused(f"--walltime is a time such as 2:00:00, 90m or 12h, not {text!r}")
