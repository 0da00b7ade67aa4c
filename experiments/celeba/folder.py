r"""The layout in which CelebA is published: pictures in ``img_align_celeba``, attributes and split in text files beside it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from cutline.arrays import Int8Array, IntArray
from cutline.errors import SourceError

PICTURES, ATTRIBUTES, SPLIT = "img_align_celeba", "list_attr_celeba.txt", "list_eval_partition.txt"
IDENTITIES = "identity_CelebA.txt"  # who is in a picture; published on request
_NUMBERS = {"train": 0, "validation": 1, "test": 2}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Faces:
    """What the text files say about the pictures that have all of it; the pictures are read when they are needed."""

    folder: Path
    attributes: tuple[str, ...]
    names: tuple[str, ...]
    ids: tuple[str, ...]  # of the person where identities are known, else of the picture
    values: Int8Array  # pictures x attributes, 0 and 1
    split: Int8Array  # 0 train, 1 validation, 2 test

    @property
    def persons(self) -> bool:
        """Whether it is known who is in a picture."""
        return self.ids is not self.names

    def places(self, split: Literal["train", "validation", "test"]) -> IntArray:
        """Return where the pictures of a part of the published split are, in the order of their files."""
        return np.flatnonzero(self.split == _NUMBERS[split])

    def read(self, places: IntArray, *, size: int) -> tuple[npt.NDArray[np.uint8], IntArray]:
        r"""Return pictures of ``size`` by ``size`` pixels, (pictures, 3, size, size), and where they stand in ``places``.

        A picture that cannot be read is left out.
        """
        found = [(i, picture) for i, place in enumerate(places) if (picture := self._picture(place, size)) is not None]
        kept = np.array([i for i, _ in found], dtype=np.int64)
        empty = np.zeros((0, 3, size, size), dtype=np.uint8)
        return (np.stack([picture for _, picture in found]) if found else empty), kept

    def _picture(self, place: int, size: int) -> npt.NDArray[np.uint8] | None:
        from PIL import Image

        try:
            with Image.open(self.folder / PICTURES / self.names[place]) as picture:
                wide, high = picture.size
                edge, top = min(wide, high), max(0, high - wide) // 2  # the square in the middle, where the face is
                cut = picture.convert("RGB").resize((size, size), box=(0, top, edge, top + edge))
                return np.ascontiguousarray(np.asarray(cut, dtype=np.uint8).transpose(2, 0, 1))
        except Exception:  # whatever is wrong with one picture is nobody's business
            return None


def read_folder(folder: Path) -> Faces:
    """Read the text files of a folder; a line that is not as it should be leaves its picture out."""
    if not (folder / PICTURES).is_dir():
        raise SourceError(
            f"a folder of CelebA must hold {PICTURES}", f"{str(folder)!r}", "Unpack img_align_celeba.zip there."
        )
    _, header, *lines = _read_lines(folder, ATTRIBUTES)
    attributes = tuple(header.split())
    values = {name: cells for name, *cells in map(str.split, lines)}
    split = {name: cells for name, *cells in map(str.split, _read_lines(folder, SPLIT))}
    known = (folder / IDENTITIES).exists()
    persons = {name: cells for name, *cells in map(str.split, _read_lines(folder, IDENTITIES))} if known else {}
    names = tuple(
        name
        for name, cells in sorted(values.items())
        if len(cells) == len(attributes)
        and set(cells) <= {"1", "-1", "0"}
        and split.get(name) in (["0"], ["1"], ["2"])
        and Path(name).name == name
    )
    return Faces(
        folder=folder,
        attributes=attributes,
        names=names,
        ids=tuple(" ".join(persons.get(name, [])) for name in names) if known else names,
        values=np.array([[cell == "1" for cell in values[name]] for name in names], dtype=np.int8),
        split=np.array([int(split[name][0]) for name in names], dtype=np.int8),
    )


def _read_lines(folder: Path, name: str) -> list[str]:
    try:
        lines = (folder / name).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        lines = []
    kept = [line for line in lines if line.strip()]
    if len(kept) < 3:
        raise SourceError(f"a folder of CelebA must hold {name}", f"{str(folder)!r}", "Put the published file there.")
    return kept
