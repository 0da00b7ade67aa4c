r"""Packages that only some uses need, and the refusal that names how to install them.

``pip install cutline`` brings what counting, releasing, accounting and verifying need. Figures, the scikit-learn estimator and
the bridges to other systems need more; each comes with an extra, as in ``pip install 'cutline[plots]'``.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from cutline.errors import MissingExtraError


def require(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import and return a module, or refuse by the name of the extra that installs it.

    ``purpose`` is what the module is needed for, as the subject of a sentence: ``"a figure"``.

    Examples
    --------
    >>> require("json", extra="plots", purpose="a figure").__name__
    'json'
    >>> require("no_such_module", extra="plots", purpose="a figure")
    Traceback (most recent call last):
        ...
    cutline.errors.MissingExtraError: a figure needs a package that is not installed; got no module no_such_module. \
Install it with pip install 'cutline[plots]'.
    """
    try:
        return import_module(module)
    except ImportError:
        raise MissingExtraError(
            f"{purpose} needs a package that is not installed",
            f"no module {module.partition('.')[0]}",
            f"Install it with pip install 'cutline[{extra}]'.",
        ) from None
