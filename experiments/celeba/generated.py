r"""Pictures of faces that nobody has, in CelebA's layout and size, with attributes that can be seen in them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from experiments.celeba.folder import ATTRIBUTES, PICTURES, SPLIT

_SIZE = (178, 218)
# How often each is set; the names are CelebA's.
_SHARES: Mapping[str, float] = {
    "Blond_Hair": 0.3,
    "Eyeglasses": 0.25,
    "Mouth_Slightly_Open": 0.5,
    "Pale_Skin": 0.4,
    "Wearing_Hat": 0.2,
    "Wearing_Lipstick": 0.5,
}


def write_faces(folder: Path, *, train: int, validation: int, test: int, seed: int = 0) -> None:
    """Draw so many pictures for each part of the split, and write them with their text files."""
    rng = np.random.default_rng(seed)
    pictures = folder / PICTURES
    pictures.mkdir(parents=True)
    attributes, split = [], []
    for number, part in enumerate(np.repeat([0, 1, 2], [train, validation, test]), start=1):
        name = f"{number:06}.jpg"
        chosen = {attribute: bool(rng.random() < share) for attribute, share in _SHARES.items()}
        _draw(chosen, rng).save(pictures / name, quality=75)
        attributes.append(" ".join([name, *("1" if value else "-1" for value in chosen.values())]))
        split.append(f"{name} {part}")
    (folder / ATTRIBUTES).write_text("\n".join([str(len(split)), " ".join(_SHARES), *attributes]) + "\n")
    (folder / SPLIT).write_text("\n".join(split) + "\n")


def _draw(chosen: Mapping[str, bool], rng: np.random.Generator) -> Any:
    from PIL import Image, ImageDraw

    def around(*colour: int) -> tuple[int, ...]:
        return tuple(int(each) for each in np.clip(np.array(colour) + rng.normal(0, 12, 3), 0, 255))

    picture = Image.new("RGB", _SIZE, around(120, 130, 140))
    draw = ImageDraw.Draw(picture)
    x, y = 89 + rng.normal(0, 4), 112 + rng.normal(0, 4)
    hair = around(215, 185, 110) if chosen["Blond_Hair"] else around(55, 40, 30)
    draw.ellipse((x - 58, y - 80, x + 58, y + 70), fill=hair)
    draw.ellipse(
        (x - 44, y - 58, x + 44, y + 62), fill=around(245, 225, 215) if chosen["Pale_Skin"] else around(190, 140, 110)
    )
    if chosen["Wearing_Hat"]:
        draw.rectangle((x - 66, y - 90, x + 66, y - 42), fill=around(40, 90, 160))
    for side in (-1, 1):
        eye = x + side * 18
        draw.ellipse((eye - 5, y - 16, eye + 5, y - 9), fill=(30, 30, 30))
        if chosen["Eyeglasses"]:
            draw.rectangle((eye - 15, y - 24, eye + 15, y - 2), outline=(10, 10, 10), width=5)
    lips = around(200, 30, 50) if chosen["Wearing_Lipstick"] else around(170, 110, 95)
    draw.ellipse((x - 18, y + 28, x + 18, y + (48 if chosen["Mouth_Slightly_Open"] else 36)), fill=lips)
    if chosen["Mouth_Slightly_Open"]:
        draw.ellipse((x - 12, y + 33, x + 12, y + 43), fill=(40, 10, 10))
    return picture
