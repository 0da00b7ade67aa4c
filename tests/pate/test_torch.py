"""Images and networks of a real torch: nothing is reshaped or cast, and one record changes one ballot."""

from contextlib import nullcontext

import numpy as np
import pytest
import torch
from sklearn.dummy import DummyClassifier
from skorch import NeuralNetClassifier
from torch import nn

from cutline.errors import ParameterError
from cutline.interop.torch_classifier import TorchClassifier
from cutline.pate import OptimalVote
from cutline.pate.classifier import PATEClassifier
from cutline.pate.partition import assign, row_bytes
from cutline.privacy import Budget

rng = np.random.default_rng(4)
IMAGES = rng.random((20, 1, 8, 8), dtype=np.float32)
LABELS = np.column_stack([IMAGES[:, 0, :4].mean(axis=(1, 2)) > 0.5, IMAGES[:, 0, 3, 3] > 0.5, np.arange(20) == 7])
PUBLIC = rng.random((150, 1, 8, 8), dtype=np.float32)
TEACHERS = 4
SEEN = set()  # what networks were built for and what they were given


class Convolution(nn.Module):
    def __init__(self, outputs):
        super().__init__()
        SEEN.add(outputs)
        self.layers = nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.Tanh(), nn.Dropout(0.3), nn.Flatten(), nn.Linear(144, outputs, bias=False)
        )

    def forward(self, images):
        SEEN.add((tuple(images.shape[1:]), images.dtype, torch.get_num_threads()))
        return self.layers(
            images / images.max() - 0.5
        )  # nothing is certain, so ballots show every change of the weights


@pytest.fixture(autouse=True)
def _one_thread():
    """The student may use all threads: on a busy computer they wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


class Drawing(TorchClassifier):
    """Has no seed of its own: weights, order and dropout come from torch's global generator."""

    def __init__(self, network=Convolution, *, epochs=2, batch_size=4):
        super().__init__(network, epochs=epochs, batch_size=batch_size)


class Spy(OptimalVote):
    """Keeps the ballots."""

    seen: list = []  # noqa: RUF012

    def tally(self, ballots, scores=None):
        Spy.seen.append(ballots[0].copy())
        return super().tally(ballots, scores)


def fitted(images, labels, public, teacher=None, **changed):
    given = {"student": Drawing(), "n_teachers": TEACHERS, "epsilon": 20.0, "noise_seed": 0, "random_state": 0}
    model = PATEClassifier(teacher or Drawing(), partition_key=b"key", **(given | changed))
    return model.fit(images, labels, X_public=public)


def ballots_without(place):
    kept = np.arange(20) if place is None else np.delete(np.arange(20), place)
    budget = Budget(epsilon=20.0, delta=1e-6, releases=len(PUBLIC))
    spy = Spy.calibrate(budget, teachers=TEACHERS, labels=3)
    Spy.seen.clear()
    fitted(IMAGES[kept], LABELS[kept], PUBLIC, aggregator=spy, student=DummyClassifier())
    return np.array(Spy.seen)


pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::cutline.pate.student.LabelWarning")]


def test_dropping_any_record_changes_exactly_the_ballot_of_its_teacher():
    torch.manual_seed(3)
    before = ballots_without(None)
    assert before.shape == (TEACHERS, 150, 3)
    own = assign(row_bytes(IMAGES), teachers=TEACHERS, key=b"key")
    changed = [np.flatnonzero((ballots_without(place) != before).any(axis=(1, 2))).tolist() for place in range(20)]
    assert changed == [[teacher] for teacher in own]
    after = torch.rand(1)
    torch.manual_seed(3)
    assert torch.rand(1) == after  # teachers drew thousands of times


def test_a_teacher_whose_generator_nobody_holds_is_refused(monkeypatch):
    monkeypatch.setattr("cutline.pate.isolation._torch_generators", lambda seed: nullcontext())
    with pytest.raises(ParameterError, match="learnt the same public examples twice and voted differently"):
        ballots_without(None)


@pytest.mark.parametrize("kind", [np.uint8, np.float32])
def test_images_reach_networks_in_their_shape_and_type(kind):
    SEEN.clear()
    images, public = (each if kind == np.float32 else (255 * each).astype(kind) for each in (IMAGES, PUBLIC))
    model = fitted(images, LABELS, public, n_teachers=2)
    declared = torch.from_numpy(images).dtype
    assert {each for each in SEEN if isinstance(each, tuple)} == {((1, 8, 8), declared, 1)}
    assert model.predict(public).shape == model.predict_proba(public).shape == (150, 3)
    assert model.predict(torch.from_numpy(public)).tolist() == model.predict(public).tolist()


def test_a_network_learns_all_labels_at_once():
    """The third label is set in one record: most teachers have it with one value, and still an output for it."""
    SEEN.clear()
    fitted(IMAGES, LABELS, PUBLIC, student=DummyClassifier())
    assert {each for each in SEEN if isinstance(each, int)} == {3}


def test_skorch_is_a_teacher_once_it_is_quiet():
    net = NeuralNetClassifier(Convolution, module__outputs=2, criterion=nn.CrossEntropyLoss, max_epochs=2, batch_size=8)
    with pytest.raises(ParameterError, match=r"verbose=1\. Set verbose=0"):
        fitted(IMAGES, LABELS[:, 0], PUBLIC, net)
    quiet = net.set_params(verbose=0, train_split=None)
    model = fitted(IMAGES, LABELS[:, 0], PUBLIC, quiet, student=quiet)
    assert model.predict(PUBLIC).shape == (150,)
