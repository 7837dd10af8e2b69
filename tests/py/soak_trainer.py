"""One rank of a training that does nothing but save; see soak_job.sh.

    soak_trainer.py HOST_FOLDER RANK WORLD ATTEMPT ROOT

Every few tenths of a second it saves: each rank its part, and rank 0, when all have, what makes it whole; without
ROOT/sharded only rank 0 writes. What a checkpoint holds follows from its step, the launch and the rank (`content`).
ROOT/whole names what was whole, ROOT/resumed from where each rank went on. It prunes its own folder, as trainers do.
"""

import os
import pickle
import random
import shutil
import sys
import time


class Record:
    """Stands for the classes of torch.distributed.checkpoint: an object with fields."""

    def __init__(self, **fields: object) -> None:
        self.__dict__.update(fields)


def metadata_of(parts: dict[str, int]) -> bytes:
    """A .metadata that names these parts, with their bytes."""
    storage = {
        Record(fqn=f"model.{number}"): Record(relative_path=name, offset=0, length=size)
        for number, (name, size) in enumerate(parts.items())
    }
    return pickle.dumps(Record(state_dict_metadata={}, storage_data=storage))


def content(step: int, attempt: int, rank: int) -> bytes:
    """The bytes of a rank's part."""
    chance = random.Random(step * 1_000_000 + attempt * 1000 + rank)
    return chance.randbytes(chance.choice([1000, 200_000, 2_500_000]))


def files(step: int, attempt: int, world: int, sharded: bool) -> dict[str, bytes]:
    """All of a checkpoint, but for what makes it whole."""
    if not sharded:
        return {"model.bin": content(step, attempt, 0)}
    return {f"__{rank}_0.distcp": content(step, attempt, rank) for rank in range(world)}


def append(path: str, line: str) -> None:
    with open(path, "a") as file:
        file.write(line + "\n")


def steps(folder: str) -> list[int]:
    """Those that lie there, sorted."""
    return sorted(int(name[5:]) for name in os.listdir(folder) if name[:5] == "step-" and name[5:].isdigit())


def write(path: str, data: bytes, chance: random.Random) -> None:
    """In pieces, so that a death finds it half."""
    with open(path, "wb") as file:
        for start in range(0, len(data), 1_000_000):
            file.write(data[start : start + 1_000_000])
            file.flush()
            time.sleep(chance.random() * 0.02)


def wait(*paths: str) -> None:
    while not all(map(os.path.exists, paths)):
        time.sleep(0.01)


def publish(path: str, text: bytes, root: str) -> None:
    """Written elsewhere, so that it is there whole or not at all."""
    with open(f"{root}/meet/new", "wb") as file:
        file.write(text)
    os.rename(f"{root}/meet/new", path)


def main(host: str, rank: int, world: int, attempt: int, root: str) -> None:
    chance = random.Random(attempt * 1000 + rank)
    folder, sharded = f"{host}/checkpoints", os.path.exists(f"{root}/sharded")
    step = max(steps(folder), default=0)
    if step:
        with open(f"{folder}/step-{step}/" + (f"__{rank}_0.distcp" if sharded else "model.bin"), "rb") as file:
            file.read()
    append(f"{root}/resumed", f"{attempt} {rank} {step}")
    while True:
        step += 10
        time.sleep(0.2 + chance.random() * 0.3)
        top, here = f"{folder}/step-{step}", f"{root}/meet/{attempt}.{step}"
        if sharded or rank == 0:
            os.makedirs(top, exist_ok=True)
            name = f"__{rank}_0.distcp" if sharded else "model.bin"
            write(f"{top}/{name}", content(step, attempt, rank), chance)
        open(f"{here}.{rank}", "w").close()
        if rank == 0:
            wait(*(f"{here}.{other}" for other in range(world)))
            sizes = {name: len(data) for name, data in files(step, attempt, world, sharded).items()}
            publish(f"{top}/{'.metadata' if sharded else 'last.json'}", metadata_of(sizes), root)
            append(f"{root}/whole", f"{attempt} {step}")
            publish(here, b"end" if os.path.exists(f"{root}/stop") else b"on", root)
        wait(here)
        for old in steps(folder)[:-2]:
            if not os.path.islink(f"{folder}/step-{old}"):
                shutil.rmtree(f"{folder}/step-{old}", ignore_errors=True)
        with open(here) as file:
            if file.read() == "end":
                return


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:5]), sys.argv[5])
