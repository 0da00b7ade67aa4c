r"""``python -m experiments.celeba``: teachers, ballots, labels and a student, on a folder of CelebA or on drawn faces.

Run it again after whatever stopped it: it goes on where it was. Ballots stay in the directory of the run, readable by its owner
alone; labels, student and result are what a release would make public. With a seed for the noise it is a simulation.
"""

from __future__ import annotations

import argparse
import io
import json
import pickle
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import cutline
from cutline.arrays import Int8Array
from cutline.errors import CutlineError, ParameterError
from cutline.sampling import SeededSource, SystemSource
from experiments.celeba.ballots import Plan, begin, cast_missing, gather, public_places, write_private
from experiments.celeba.folder import Faces, read_folder
from experiments.celeba.generated import write_faces
from experiments.exp3.polls import score

_PLANNED = ("teachers", "queries", "size", "epochs", "seed", "epsilon", "delta", "limit", "quorum")
_DRAWN = {"train": 60, "validation": 60, "test": 200}  # pictures; the first a teacher


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 0 done, 1 refused, 3 if ballots of other parts are still missing."""
    options = _parser().parse_args(arguments)
    try:
        result = run(options)
    except CutlineError as error:
        sys.stderr.write(f"celeba: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted. Run it again to go on.\n")
        return 130
    if result is None:
        sys.stderr.write("This part is done; ballots of other parts are missing.\n")
        return 3
    sys.stdout.write(json.dumps(result, indent=2) + "\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.celeba",
        description="Train teachers on CelebA's pictures, release labels of public pictures and train a student. Run again, it "
        "goes on where it stopped.",
        epilog="Example: python -m experiments.celeba --images CelebA --work run --teachers 800 --epsilon 3",
    )
    parser.add_argument(
        "--images",
        type=Path,
        metavar="DIR",
        help="a folder with img_align_celeba, list_attr_celeba.txt and list_eval_partition.txt; without it faces are drawn",
    )
    parser.add_argument("--work", type=Path, metavar="DIR", required=True, help="where the run is kept; private")
    parser.add_argument("--teachers", type=int, metavar="N", default=800, help="(default: %(default)s)")
    parser.add_argument("--queries", type=int, metavar="N", default=600, help="public pictures (default: %(default)s)")
    parser.add_argument("--size", type=int, metavar="N", default=64, help="pixels a side (default: %(default)s)")
    parser.add_argument("--epochs", type=int, metavar="N", default=20, help="of a teacher (default: %(default)s)")
    parser.add_argument("--epsilon", type=float, metavar="E", default=3.0, help="(default: %(default)s)")
    parser.add_argument("--delta", type=float, metavar="D", default=1e-6, help="(default: %(default)s)")
    parser.add_argument("--limit", type=int, metavar="N", help="cut ballots to their surest labels")
    parser.add_argument(
        "--quorum", type=float, metavar="SHARE", help="share of the teachers that must say yes (default: half)"
    )
    parser.add_argument(
        "--seed", type=int, metavar="N", default=0, help="of teachers and student (default: %(default)s)"
    )
    parser.add_argument("--noise-seed", type=int, metavar="N", help="makes a simulation that can be repeated")
    parser.add_argument(
        "--part", type=_read_part, metavar="I/N", default=(1, 1), help="train every N-th teacher only, from the I-th"
    )
    return parser


def _read_part(text: str) -> tuple[int, int]:
    part, _, parts = text.partition("/")
    if not (part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts)):
        raise argparse.ArgumentTypeError("a part is written like 1/4")
    return int(part), int(parts)


def run(options: argparse.Namespace) -> dict[str, Any] | None:
    """Go through all stages that are not done yet; return the result, or None while ballots are missing."""
    for name in ("teachers", "queries", "size", "epochs"):
        if getattr(options, name) < 1:
            raise ParameterError(f"{name} must be at least 1", f"{name}={getattr(options, name)}", "Pass more.")
    folder = options.images or _draw_faces(options.work, options.teachers, options.seed)
    plan = begin(options.work, folder=str(folder.resolve()), **{name: getattr(options, name) for name in _PLANNED})
    done = options.work / "result.json"
    if done.exists():
        finished: dict[str, Any] = json.loads(done.read_text())
        return finished
    faces = read_folder(folder)
    places = public_places(faces, plan)
    public, kept = faces.read(places, size=plan.size)
    if len(kept) < plan.queries:
        raise ParameterError(
            "public pictures must be readable", f"{plan.queries - len(kept)} are not", "Check the folder."
        )
    _teach(options.work, plan, faces, public, options.part)
    cast = gather(options.work, plan)
    if cast is None:
        return None
    labels = _release(options, faces, cast)
    return _learn(options.work, plan, faces, public, places, labels)


def _draw_faces(work: Path, teachers: int, seed: int) -> Path:
    """Draw pictures once, and return their folder; half a folder, of a run that was killed, is drawn anew."""
    folder, draft = work / "faces", work / "faces.part"
    if not folder.exists():
        import shutil

        work.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.rmtree(draft, ignore_errors=True)
        write_faces(
            draft, train=_DRAWN["train"] * teachers, validation=_DRAWN["validation"], test=_DRAWN["test"], seed=seed
        )
        draft.rename(folder)
    return folder


def _teach(work: Path, plan: Plan, faces: Faces, public: Any, part: tuple[int, int]) -> None:
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(file=sys.stderr)) as progress:
        task = progress.add_task("Teachers", total=len(range(part[0] - 1, plan.teachers, part[1])))
        for teacher in cast_missing(work, plan, faces, public, part=part):
            progress.update(task, completed=len(range(part[0] - 1, teacher + 1, part[1])))
        progress.update(task, completed=progress.tasks[0].total)


def _release(options: argparse.Namespace, faces: Faces, cast: tuple[Int8Array, Any]) -> dict[str, Any]:
    """Draw the labels once: to draw them again would be a second release."""
    path = options.work / "labels.npz"
    if not path.exists():
        rng = SystemSource() if options.noise_seed is None else SeededSource(options.noise_seed)
        budget = {"epsilon": options.epsilon, "delta": options.delta, "rng": rng}
        released = cutline.label(cast[0], scores=cast[1], limit=options.limit, quorum=options.quorum, **budget)
        names, values, said = np.array(faces.attributes), released.values, np.array(released.guarantee)
        write_private(path, lambda file: np.savez(file, labels=values, names=names, guarantee=said))
    with np.load(path, allow_pickle=False) as file:
        return {"values": file["labels"], "guarantee": str(file["guarantee"])}


def _learn(work: Path, plan: Plan, faces: Faces, public: Any, places: Any, labels: dict[str, Any]) -> dict[str, Any]:
    """Train the student on the released labels, and compare its answers with the truth of the test part."""
    from cutline.pate.student import LabelWarning, fit_student
    from experiments.celeba.network import make_classifier

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelWarning)
        student = fit_student(make_classifier(3 * plan.epochs), public, labels["values"], seed=plan.seed)
    buffer = io.BytesIO()
    pickle.dump(student, buffer)
    write_private(work / "student.pickle", lambda file: file.write(buffer.getvalue()))
    tested = faces.places("test")
    pictures, kept = faces.read(tested, size=plan.size)
    truth = faces.values[tested[kept]].astype(np.bool_)
    said = student.predict(pictures)
    released, learnt, never = (
        score(values, true)
        for values, true in (
            (labels["values"], faces.values[places].astype(np.bool_)),
            (said, truth),
            (np.zeros_like(said), truth),
        )
    )
    result = {
        "guarantee": labels["guarantee"],
        "protects": "persons" if faces.persons else "pictures",
        "teachers": plan.teachers,
        "queries": plan.queries,
        "attributes": len(faces.attributes),
        "released labels": {"right": released.right, "balanced accuracy": released.balanced},
        "student": {"right": learnt.right, "balanced accuracy": learnt.balanced},
        "always no": {"right": never.right, "balanced accuracy": never.balanced},
    }
    write_private(work / "result.json", lambda file: file.write(json.dumps(result, indent=2).encode()))
    return result


if __name__ == "__main__":
    sys.exit(main())
