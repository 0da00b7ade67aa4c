r"""The network that teachers and student are: three convolutions and one layer on top."""

from __future__ import annotations

from typing import Any

from torch import nn

from cutline.interop.torch_classifier import TorchClassifier


class FaceNetwork(nn.Module):  # type: ignore[misc]  # torch is not read by the type checker
    """Takes uint8 pictures as they are, of any size."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *(nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.ReLU()),
            *(nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU()),
            *(nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.ReLU()),
            *(nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(1024, outputs)),
        )

    def forward(self, pictures: Any) -> Any:
        """Return one logit an attribute."""
        return self.layers(pictures.float() / 127.5 - 1)


def make_classifier(epochs: int) -> TorchClassifier:
    """Return the classifier; rare attributes count as much as frequent ones, or no small teacher would ever name them."""
    return TorchClassifier(FaceNetwork, epochs=epochs, batch_size=16, learning_rate=2e-3, class_weight="balanced")
