import numpy as np
from sklearn.linear_model import RidgeClassifier

from cutline.pate.predictions import fit_labels, predict_labels


def test_hundreds_of_labels_are_learnt_as_well_as_few():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(300, 20))
    labels = np.greater(features @ rng.normal(size=(20, 300)), 0).astype(np.int8)
    model = fit_labels(RidgeClassifier(), features, labels)
    assert (predict_labels(model, features, 300) == labels).mean() > 0.9  # as int8, half: nothing learnt
