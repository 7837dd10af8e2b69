"""What the commands of a job may hold."""

from pathlib import Path

import pytest
import trees

from outlast import words
from outlast.refused import Refused

REFUSED = [
    (("checkpoint.on_durable=convert {ckpt}",), r"on_durable has \{ckpt\}"),
    (("checkpoint.on_durable=a > b",), "checkpoint.on_durable has the word >, .*on_durable = "),
    (("command=",), "command is missing"),
    (("command=x {ckptdir}",), r"command has \{ckptdir\} \(did you mean \{ckpt_dir\}\?\)"),
    (("command=x --from={resume}",), "stands alone"),
    (("command=x {target_step}",), "progress.target_step=N too"),
    (("preset=torchrun", "command=torchrun --max_restarts 3 t.py"), "command has --max-restarts"),
    (("preset=torchrun", "command=torchrun --max-restarts=3 t.py"), "command has --max-restarts"),
    (("preset=hf", "command=/opt/bin/torchrun --max-restarts=3 t.py"), "command has --max-restarts"),
    (("command=python3 -m torch.distributed.run --max-restarts 3 t.py",), "command has --max-restarts"),
    (("command=accelerate launch --max_restarts 3 t.py",), "command has --max-restarts"),
    (("command=bash -c 'source x && torchrun --max_restarts 3 t.py'",), "command has --max-restarts"),
    (("command=python train.py | tee x",), r"command has the word \|, and no shell runs it; .*bash -c"),
    (("command=a > x",), "command has the word >,"),
    (("command=a 2>&1",), "command has the word 2>&1,"),
    (("command=a && b",), "command has the word &&,"),
    (("command=a ; b",), "command has the word ;,"),
]


def check(tmp_path: Path, *assignments: str) -> None:
    words.check(trees.plan(trees.make(tmp_path), *assignments).job)


@pytest.mark.parametrize(("assignments", "message"), REFUSED)
def test_what_would_not_run_is_refused(tmp_path: Path, assignments: tuple[str, ...], message: str) -> None:
    with pytest.raises(Refused, match=message) as refused:
        check(tmp_path, *assignments)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "assignment",
    [
        "preset=torchrun",
        'command=x --fsdp_config {"min":1} {run}-{nodes}x{ranks}',
        "command=python3 train.py --max-restarts 3",
        "command=torchrun --max-restarts=0 t.py",
        "checkpoint.on_durable=sbatch eval.sh {checkpoint} {step} {score}",
        "command=bash -c 'exec python train.py | tee x'",
    ],
)
def test_what_runs_is_taken(tmp_path: Path, assignment: str) -> None:
    check(tmp_path, assignment)
