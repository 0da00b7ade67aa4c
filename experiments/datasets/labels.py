r"""Tables of labels: CelebA's attributes, and the multi-label sets TMC2007 and Delicious."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from cutline.errors import ParameterError, SourceError
from experiments.datasets import files
from experiments.datasets.generated import generated_labels
from experiments.datasets.mulan import Examples, read_mulan
from experiments.datasets.sources import Publication

CELEBA = Publication(
    title="CelebA attributes",
    publisher="the attribute table of CelebA by Liu, Luo, Wang and Tang (ICCV 2015)",
    page="the page CelebA of the Multimedia Laboratory (MMLab) of The Chinese University of Hong Kong, folders Anno and Eval",
    forms=(("list_attr_celeba.txt", "list_eval_partition.txt"), ("celeba_attributes.npz",)),
)
_IMAGES, _ATTRIBUTES = 202_599, 40
_SPLIT = (162_770, 19_867, 19_962)  # train, validation, test


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class LabelData:
    """Examples with their labels, and where they come from."""

    name: str
    title: str
    note: str
    generated: bool
    labels: tuple[str, ...]
    features: npt.NDArray[Any] | None  # examples x features; None if only the labels are known
    values: npt.NDArray[np.bool_]  # examples x labels
    split: npt.NDArray[np.int8]  # 0 train; CelebA: 1 validation, 2 test; others: 1 test


@dataclass(frozen=True, slots=True, kw_only=True)
class _Set:
    title: str
    publisher: str
    folder: str
    originals: tuple[tuple[str, ...], ...]  # train, test, header
    file: str  # packed
    train: int
    test: int
    labels: int
    per_example: float
    features: int = 500

    @property
    def source(self) -> Publication:
        page = f"GitHub, repository tsoumakas/mulan, folder data/multi-label/{self.folder}"
        return Publication(title=self.title, publisher=self.publisher, page=page, forms=(*self.originals, (self.file,)))


MULTILABEL: Mapping[str, _Set] = MappingProxyType(
    {
        "tmc2007": _Set(
            title="TMC2007",
            publisher="TMC2007 by Srivastava and Zane-Ulman (2005), its 500-word form in the Mulan collection",
            folder="tmc2007",
            originals=tuple(
                ("tmc2007-500-train.arff", "tmc2007-500-test.arff", header)
                for header in ("tmc2007.xml", "tmc2007-500.xml")
            ),
            file="multilabel_tmc2007_500.npz", train=21_519, test=7_077, labels=22, per_example=2.16,
        ),
        "delicious": _Set(
            title="Delicious",
            publisher="Delicious by Tsoumakas, Katakis and Vlahavas (2008), in the Mulan collection",
            folder="delicious",
            originals=(("delicious-train.arff", "delicious-test.arff", "delicious.xml"),),
            file="multilabel_delicious.npz", train=12_920, test=3_185, labels=983, per_example=19.02,
        ),
    }
)  # fmt: skip


def load_celeba(data: Path | None) -> LabelData:
    """Return CelebA's 40 attributes of 202,599 images: of the directory's files, or generated if there is no directory."""
    if data is None:
        _, values = generated_labels("celeba", examples=_IMAGES, labels=_ATTRIBUTES, per_example=9.03, features=1)
        return LabelData(
            name="celeba",
            title="CelebA attributes (generated)",
            note="A generated table of as many images and attributes, with about as many per image; no real data.",
            generated=True,
            labels=tuple(f"attribute {i + 1}" for i in range(_ATTRIBUTES)),
            features=None,
            values=values,
            split=np.repeat(np.arange(3, dtype=np.int8), _SPLIT),
        )
    path, *others = CELEBA.find(data)
    if path.suffix == ".npz":
        arrays = files.read_npz(path, ["Y_packed", "split", "names"])
        names, split = tuple(map(str, arrays["names"])), arrays["split"].astype(np.int8)
        values = np.unpackbits(arrays["Y_packed"], axis=1, count=_ATTRIBUTES).astype(np.bool_)
    else:
        names, values = _read_attributes(path)
        split = _read_partition(others[0])
    found = {"images": len(values), "attributes": len(names), "images of the split": len(split)}
    found["test images"] = int((split == 2).sum())
    known = {"images": _IMAGES, "attributes": _ATTRIBUTES, "images of the split": _IMAGES, "test images": _SPLIT[2]}
    files.check_shape(path, found, known)
    return LabelData(
        name="celeba",
        title=CELEBA.title,
        note=f"{_IMAGES:,} images, {_ATTRIBUTES} attributes, the published split. Published as {CELEBA.publisher}.",
        generated=False,
        labels=names,
        features=None,
        values=values,
        split=split,
    )


def load_multilabel(name: str, data: Path | None) -> LabelData:
    """Return a multi-label set with binary word features: ``tmc2007`` or ``delicious``.

    Examples
    --------
    >>> reports = load_multilabel("tmc2007", None)
    >>> reports.values.shape, int((reports.split == 1).sum()), reports.title
    ((28596, 22), 7077, 'TMC2007 (generated)')
    """
    if name not in MULTILABEL:
        raise ParameterError("the label set must be a known one", f"{name!r}", f"Known: {', '.join(MULTILABEL)}.")
    known = MULTILABEL[name]
    examples = known.train + known.test
    if data is None:
        features, values = generated_labels(
            name, examples=examples, labels=known.labels, per_example=known.per_example, features=known.features
        )
        return LabelData(
            name=name,
            title=f"{known.title} (generated)",
            note=f"{known.title}: generated examples, as many and with as many labels and features; no real data.",
            generated=True,
            labels=tuple(f"label {i + 1}" for i in range(known.labels)),
            features=features,
            values=values,
            split=np.repeat(np.arange(2, dtype=np.int8), (known.train, known.test)),
        )
    paths = known.source.find(data)
    read = _read_packed(paths[0]) if paths[0].name == known.file else read_mulan(*paths)
    found = {"examples": len(read.values), "labels": read.values.shape[1], "features": read.features.shape[1]}
    found["test examples"] = int((read.split == 1).sum())
    expected = {"examples": examples, "labels": known.labels, "features": known.features, "test examples": known.test}
    files.check_shape(paths[0], found, expected)
    return LabelData(
        name=name,
        title=known.title,
        note=f"{known.title}: {examples:,} examples, {known.labels} labels. Published as {known.publisher}.",
        generated=False,
        labels=read.labels,
        features=read.features,
        values=read.values,
        split=read.split,
    )


def _read_packed(path: Path) -> Examples:
    arrays = files.read_npz(path, ["X_packed", "X_shape", "Y", "split", "label_names"])
    width = int(arrays["X_shape"][1])
    return Examples(
        labels=tuple(map(str, arrays["label_names"])),
        features=np.unpackbits(arrays["X_packed"], axis=1, count=width).astype(np.bool_),
        values=arrays["Y"].astype(np.bool_),
        split=arrays["split"].astype(np.int8),
    )


def _read_attributes(path: Path) -> tuple[tuple[str, ...], npt.NDArray[np.bool_]]:
    """Read the publisher's table: a line with the number of images, one with the names, then -1 and 1."""
    try:
        with path.open(encoding="utf-8") as lines:
            next(lines)
            names = tuple(next(lines).split())
            values = np.loadtxt(lines, dtype=np.int8, usecols=range(1, len(names) + 1), ndmin=2)
    except (OSError, ValueError, StopIteration):
        raise _misshapen(path) from None
    return names, values > 0


def _read_partition(path: Path) -> npt.NDArray[np.int8]:
    try:
        return np.loadtxt(path, dtype=np.int8, usecols=1, ndmin=1)
    except (OSError, ValueError):
        raise _misshapen(path) from None


def _misshapen(path: Path) -> SourceError:
    return SourceError("the file must have the publisher's columns", f"{path.name!r}", "Fetch it again.")
