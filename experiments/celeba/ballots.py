r"""One ballot a teacher, each in a file of its own: whatever stops a run, it goes on with the first teacher that has none.

**Privacy.** A ballot is private. Its file can be read by its owner alone (mode 0600, in a directory of mode 0700), and appears
whole or not at all. A teacher's ballot depends on its own pictures, the public ones and its number.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

import numpy as np
import numpy.typing as npt

import cutline
from cutline.arrays import FloatArray, Int8Array
from cutline.errors import ParameterError, SourceError
from experiments.celeba.folder import Faces
from experiments.trials import seed_of

_PLAN = "plan.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a run was begun with, all of it public; it goes on with the same or not at all."""

    folder: str
    teachers: int
    queries: int
    size: int
    epochs: int
    seed: int
    epsilon: float
    delta: float
    limit: int | None
    quorum: float | None
    key: str  # of the partition, in hexadecimal


class Write(Protocol):
    """Writes the content of a file."""

    def __call__(self, file: BinaryIO) -> object:
        """Write to an open file."""
        ...


def write_private(path: Path, write: Write) -> None:
    """Write a file that only its owner can read, whole or not at all; what is there by then stays.

    Several computers may work in one directory: two keys would split the records twice, two draws of labels be two releases.
    """
    for draft in path.parent.glob(f".{path.name}.*.part"):  # of a run that was killed while it wrote this file
        draft.unlink(missing_ok=True)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())
    with suppress(FileExistsError):
        os.link(draft, path)
    draft.unlink(missing_ok=True)


def begin(work: Path, **settings: float | str | None) -> Plan:
    """Return the plan of a run that was begun in this directory, or begin one; refuse to go on with other settings."""
    work.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = work / _PLAN
    if not path.exists():
        fresh = json.dumps(settings | {"key": secrets.token_hex(16)}).encode()
        write_private(path, lambda file: file.write(fresh))
    try:
        plan = Plan(**json.loads(path.read_text()))
    except (TypeError, ValueError):
        raise SourceError(
            "the plan of a run must be as it was written", f"{str(path)!r}", "Begin in an empty directory."
        ) from None
    changed = [name for name, value in asdict(plan).items() if name != "key" and settings[name] != value]
    if changed:
        raise ParameterError(
            "a run goes on with the settings it was begun with",
            ", ".join(f"{name}={settings[name]}, begun with {getattr(plan, name)}" for name in changed),
            "Pass the same, or begin in another directory.",
        )
    return plan


def public_places(faces: Faces, plan: Plan) -> npt.NDArray[np.int64]:
    """Return the public pictures: some of the validation part, chosen by the seed."""
    places = faces.places("validation")
    if len(places) < plan.queries:
        raise ParameterError(
            "public pictures come from the validation part",
            f"{plan.queries} of {len(places)}",
            "Ask for fewer queries.",
        )
    rng = np.random.default_rng(seed_of(plan.seed, "celeba", "public"))
    return np.sort(rng.choice(places, plan.queries, replace=False))


def ballot_file(work: Path, teacher: int) -> Path:
    """Return where a teacher's ballot is, once it is cast."""
    return work / f"ballot-{teacher:04}.npz"


def cast_missing(
    work: Path, plan: Plan, faces: Faces, public: npt.NDArray[np.uint8], *, part: tuple[int, int]
) -> Iterator[int]:
    """Train every teacher of this part that has no ballot yet, and yield its number when its ballot is written."""
    from cutline.pate.isolation import one_core
    from cutline.pate.teachers import Shard, ballot
    from experiments.celeba.network import make_classifier

    trained = faces.places("train")
    own = cutline.partition(
        [faces.ids[place] for place in trained], teachers=plan.teachers, key=bytes.fromhex(plan.key)
    )
    for teacher in range(part[0] - 1, plan.teachers, part[1]):
        path = ballot_file(work, teacher)
        if path.exists():
            continue
        places = trained[own == teacher]
        pictures, kept = faces.read(places, size=plan.size)
        seed = seed_of(plan.seed, "celeba", teacher) % 2**31
        with one_core():
            lesson = Shard(features=pictures, labels=faces.values[places[kept]], seed=seed)
            votes, scores = ballot(make_classifier(plan.epochs), lesson, public, scored=True)
        _write_ballot(path, votes, scores)
        yield teacher


def _write_ballot(path: Path, votes: Int8Array, scores: FloatArray | None) -> None:
    write_private(path, lambda file: np.savez(file, votes=votes, scores=np.asarray(scores, dtype=np.float32)))


def gather(work: Path, plan: Plan) -> tuple[Int8Array, FloatArray] | None:
    """Return all ballots with their scores, (teachers, queries, attributes); None while some are missing."""
    paths = [ballot_file(work, teacher) for teacher in range(plan.teachers)]
    if not all(path.exists() for path in paths):
        return None
    held = [np.load(path, allow_pickle=False) for path in paths]
    return np.stack([each["votes"] for each in held]), np.stack([each["scores"] for each in held])
