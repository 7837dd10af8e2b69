"""A preset: how a kind of trainer saves, resumes and tells its step."""

from dataclasses import dataclass, field
from pathlib import Path

from outlast import schema, toml
from outlast.refused import Refused, nearest

_FOLDER = Path(__file__).resolve().parent / "presets"


@dataclass(frozen=True)
class Preset:
    """presets/NAME.toml, key by key; docs/presets.md explains them."""

    summary: str
    prefix: str  # folder name of a checkpoint, up to its step
    complete: str  # file that the trainer writes last; empty: a checkpoint is complete when it is quiet
    quiet_s: int  # a checkpoint unchanged for so long is at rest
    step_regex: str  # POSIX extended, one group: the step
    step_zero_counts: bool  # is step 0 in the log a step, or the empty progress bar?
    resume: tuple[str, ...]  # the words that {resume} becomes; {ckpt} in them is the checkpoint
    save_signal: str  # signal at which the trainer saves and goes on; empty: none
    saves_on_stop: bool  # does it save when it gets TERM?
    sharded: bool  # do many ranks write parts of one checkpoint?
    finish_regex: str = ""
    eval_regex: str = ""  # a line of an evaluation; a group in it: what changes while it moves
    save_regex: str = ""  # a line that says that a checkpoint is being written
    stack_signal: str = ""  # signal that it has registered with faulthandler; empty: none
    env: dict[str, str] = field(default_factory=dict)


def names() -> list[str]:
    """The presets there are, sorted."""
    return sorted(path.stem for path in _FOLDER.glob("*.toml"))


def load(name: str) -> Preset:
    """A preset by its name.

    Raises: Refused: no such preset (with the nearest), or its file is wrong.
    """
    if name not in names():
        raise Refused(f"no preset {name or '(none given)'}{nearest(name, names())}")
    where = f"presets/{name}.toml"
    preset: Preset = schema.record(Preset, toml.read(_FOLDER / f"{name}.toml", where), where)
    return preset


def as_job(preset: Preset) -> schema.Flat:
    """What a preset says about a job that doesn't say it itself."""
    return {
        "checkpoint.prefix": preset.prefix,
        "checkpoint.complete": preset.complete,
        "checkpoint.quiet_s": preset.quiet_s,
        "checkpoint.resume": preset.resume,
        "checkpoint.save_signal": preset.save_signal,
        "checkpoint.saves_on_stop": preset.saves_on_stop,
        "checkpoint.sharded": preset.sharded,
        "progress.step_regex": preset.step_regex,
        "progress.finish_regex": preset.finish_regex,
        "progress.eval_regex": preset.eval_regex,
        "progress.save_regex": preset.save_regex,
        "watchdog.stack_signal": preset.stack_signal,
        "env": preset.env,
    }
