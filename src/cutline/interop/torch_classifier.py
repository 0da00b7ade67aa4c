r"""A PyTorch network as a scikit-learn classifier, to be a teacher or a student of `cutline.PATEClassifier`.

PyTorch is not installed with this package. Whoever has skorch can pass its ``NeuralNetClassifier`` instead [docs/pate.md].
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from cutline.arrays import FloatArray
from cutline.errors import MissingExtraError, ParameterError
from cutline.extras import require

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils.validation import check_is_fitted
except ImportError:
    require("sklearn", extra="pate", purpose="TorchClassifier")
    raise

_PREDICTED_AT_ONCE = 1024


class TorchClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    r"""Train a network by Adam, on one label, on several labels at once, or on classes.

    **Privacy.** Every random number comes from torch's global generator, which `cutline.PATEClassifier` gives to each teacher
    at a seed of its own, or from ``random_state``. Nothing is printed, and nothing is kept outside the object.

    Parameters
    ----------
    network
        A function that is told how many outputs are needed and returns a ``torch.nn.Module``: one output for a label of two
        values, one a label for several labels, one a class for more than two classes. The module gets a batch of examples in
        the shape and type they have, uint8 images as uint8, and returns logits of shape (examples, outputs).
    epochs, batch_size, learning_rate
        How long and how fast to learn.
    class_weight
        ``"balanced"`` gives the rare value of a label, or a rare class, as much weight in all as the frequent one.
    device
        Where torch calculates.
    random_state
        A whole number for weights, order and dropout; None draws on where torch's generator stands.

    Examples
    --------
    >>> import torch
    >>> def network(outputs):
    ...     return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, outputs))
    >>> images = np.random.default_rng(0).random((50, 1, 8, 8), dtype=np.float32)
    >>> bright = images.mean(axis=(1, 2, 3)) > 0.5
    >>> model = TorchClassifier(network, random_state=0).fit(images, bright.astype(int))
    >>> model.predict(images).shape, model.predict_proba(images).shape
    ((50,), (50, 2))
    """

    def __init__(
        self,
        network: Callable[[int], Any],
        *,
        epochs: int = 10,
        batch_size: int = 32,
        learning_rate: float = 1e-3,
        class_weight: str | None = None,
        device: str = "cpu",
        random_state: int | None = None,
    ) -> None:
        self.network = network
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.class_weight = class_weight
        self.device = device
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803 - scikit-learn's name
        """Train a new network."""
        torch = _load_torch()
        targets, classes = _read_targets(np.asarray(y))
        loss = self._loss(torch, targets)
        with ExitStack() as stack:
            stack.enter_context(torch.enable_grad())
            if self.random_state is not None:
                stack.enter_context(torch.random.fork_rng())
                torch.manual_seed(self.random_state)
            network = self.network(_outputs(targets)).to(self.device).train()
            optimizer = torch.optim.Adam(network.parameters(), lr=self.learning_rate)
            # Parts of about one size: what is left over would often be one example, which batch normalization refuses.
            parts = math.ceil(len(targets) / self.batch_size)
            for _ in range(self.epochs):
                for rows in np.array_split(torch.randperm(len(targets)).numpy(), parts):
                    optimizer.zero_grad()
                    loss(network(self._tensor(torch, X[rows])), self._tensor(torch, targets[rows])).backward()
                    optimizer.step()
        self.classes_, self.network_ = classes, network.eval()
        return self

    def predict(self, X: Any) -> npt.NDArray[Any]:  # noqa: N803
        """Return a class for each example, or 0 and 1 for each of several labels."""
        chances = self.predict_proba(X)
        if isinstance(self.classes_, list):
            return (chances > 0.5).astype(np.int64)
        return np.asarray(self.classes_[chances.argmax(axis=1)])

    def predict_proba(self, X: Any) -> FloatArray:  # noqa: N803
        """Return the probability of each class, or that each of several labels is set."""
        check_is_fitted(self, "network_")
        torch = _load_torch()
        parts = range(0, len(X), _PREDICTED_AT_ONCE)
        with torch.inference_mode():
            found = [self.network_(self._tensor(torch, X[part : part + _PREDICTED_AT_ONCE])) for part in parts]
            logits = torch.cat(found).double().cpu()
            if isinstance(self.classes_, list):
                return np.asarray(logits.sigmoid().numpy())
            if len(self.classes_) == 2:
                logits = torch.cat([torch.zeros_like(logits), logits], dim=1)
            return np.asarray(logits.softmax(dim=1).numpy())

    def _tensor(self, torch: Any, array: Any) -> Any:
        return torch.from_numpy(np.array(array)).to(self.device)

    def _loss(self, torch: Any, targets: npt.NDArray[Any]) -> Any:
        if self.class_weight not in (None, "balanced"):
            raise ParameterError(
                "class_weight must be None or balanced", f"class_weight={self.class_weight!r}", "Leave it out."
            )
        classes = targets.ndim == 1
        weights = None
        if self.class_weight and classes:
            weights = self._tensor(torch, (len(targets) / np.bincount(targets)).astype(np.float32))
        elif self.class_weight:
            rare = targets.sum(axis=0)
            weights = self._tensor(torch, (len(targets) - rare) / np.maximum(rare, 1))
        return torch.nn.CrossEntropyLoss(weight=weights) if classes else torch.nn.BCEWithLogitsLoss(pos_weight=weights)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        tags.target_tags.multi_output = True
        tags.non_deterministic = self.random_state is None
        return tags


def _read_targets(y: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], Any]:
    """Return what the loss compares with, a matrix for labels and a vector for more than two classes, and the classes."""
    if y.ndim == 2:
        return y.astype(np.float32), [np.array([0, 1])] * y.shape[1]
    classes, numbers = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ParameterError("a classifier learns from at least two classes", "one", "Pass examples of both.")
    return (numbers[:, None].astype(np.float32) if len(classes) == 2 else numbers.astype(np.int64)), classes


def _outputs(targets: npt.NDArray[Any]) -> int:
    return int(targets.shape[1] if targets.ndim == 2 else targets.max() + 1)


def _load_torch() -> Any:
    try:
        import torch
    except ImportError:
        raise MissingExtraError(
            "TorchClassifier needs PyTorch, which is not installed with this package",
            "no module torch",
            "Install it as its site says for your computer.",
        ) from None
    return torch
