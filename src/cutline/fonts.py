r"""Names of any script in a figure: by fonts that are installed, and spelled out where none of them has the letter.

No font is shipped. A PNG file holds drawn letters, so a letter that no installed font has would be an empty box; it is written
as its code instead, like ``\u6771``. An SVG file holds text, which the fonts of whoever looks at it draw.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

FIRST = "DejaVu Sans"  # comes with matplotlib, and has most letters of alphabets
_BOXES = ("Last Resort", "LastResort")  # has a box for every letter there is
_WORDS = ("Sans", "Gothic", "Hei", "Noto", "Unifont")  # fonts for plain text come first


def families(texts: Iterable[str]) -> list[str]:
    """Return installed fonts that draw these texts together as far as they can: the usual one, and what it lacks.

    Examples
    --------
    >>> families(["castle", "Ærø"])
    ['DejaVu Sans']
    """
    missing = {letter for text in texts for letter in text} - {"\n"}
    found = [FIRST]
    missing -= _letters(FIRST)
    if missing:
        for name in _installed():
            covered = missing & _letters(name)
            if covered:
                found.append(name)
                missing -= covered
            if not missing:
                break
    return found


def legible(text: str, fonts: Iterable[str]) -> str:
    r"""Return the text with every letter that none of the fonts has as its code.

    Examples
    --------
    >>> print(legible("Ærø \U0010fffd", ["DejaVu Sans"]))
    Ærø \U0010fffd
    """
    known = frozenset().union(*(_letters(name) for name in fonts)) | {"\n"}
    return "".join(c if c in known else c.encode("unicode_escape").decode() for c in text)


def lacks_letters(texts: Iterable[str]) -> bool:
    """Say whether some letter of these texts is in no installed font, so that a PNG file spells it out.

    Examples
    --------
    >>> lacks_letters(["castle", "Ærø"]), lacks_letters(["\U0010fffd"])
    (False, True)
    """
    listed = list(texts)
    fonts = families(listed)
    return any(legible(text, fonts) != text for text in listed)


@contextmanager
def quiet_fonts() -> Iterator[None]:
    """Keep matplotlib from telling, on standard error, that a font has no bold letters: it draws plain ones."""
    log = logging.getLogger("matplotlib.font_manager")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)


@lru_cache(maxsize=1)
def _installed() -> tuple[str, ...]:
    from matplotlib.font_manager import fontManager

    names = sorted({entry.name for entry in fontManager.ttflist if not entry.name.startswith(_BOXES)} - {FIRST})
    return tuple(sorted(names, key=lambda name: not any(word in name for word in _WORDS)))


@lru_cache(maxsize=256)
def _letters(name: str) -> frozenset[str]:
    """Return the letters that a font can draw, plain and bold; none if it cannot be read, or holds pictures, no outlines."""
    from matplotlib.font_manager import FontProperties, findfont, get_font

    found: list[frozenset[str]] = []
    try:
        with quiet_fonts():
            # The files that a figure will draw with: a family may have others, of other weights, with fewer letters.
            for weight in ("normal", "bold"):
                wanted = FontProperties(family=name, weight=weight)
                font: Any = get_font(findfont(wanted, fallback_to_default=False))
                found.append(frozenset(map(chr, font.get_charmap())) if font.scalable else frozenset())
    except Exception:  # a broken font of the machine is as good as none
        return frozenset()
    return frozenset.intersection(*found)
