"""What a question would see: a chance that rises with the gap, and is the one that simulated questions have."""

import numpy as np
import pytest

from cutline import quote
from cutline.sampling import SeededSource
from cutline.service.sight import Sight

ASKED = [{}, {"k": 5}, {"k": 5, "counts": True}, {"k": 20, "max_items_per_user": 10, "user": "u", "item": "i"}]


@pytest.mark.parametrize("asked", ASKED, ids=map(str, ASKED))
def test_the_chance_rises_to_nine_in_ten_at_the_size_that_is_told(asked):
    sight = Sight.of(quote(epsilon=2.0, **asked).work)
    assert sight.chance(sight.nine_in_ten) >= 0.9 > sight.chance(sight.nine_in_ten - 1)
    sizes, chances = zip(*sight.curve, strict=True)
    assert list(sizes) == sorted(set(sizes))
    assert np.all(np.diff(chances) >= -1e-12)
    assert (chances[0], chances[-1]) == pytest.approx((0, 1), abs=0.05)
    assert sight.chance(10**9) == pytest.approx(1, abs=1e-3)
    assert sight.chance(0) == sight.chance(1)


def test_questions_find_a_gap_as_often_as_is_told():
    asked = quote(epsilon=2.0, max_k=20, rng=SeededSource(0))
    sight = Sight.of(asked.work)
    trials, size = 400, next(size for size, chance in sight.curve if chance > 0.4)
    found = sum(asked.run({"castle": size, "kiosk": 0}).listed() == ["castle"] for _ in range(trials))
    told = sight.chance(size)
    assert 0.2 < told < 0.8
    assert abs(found / trials - told) < 4 * (told * (1 - told) / trials) ** 0.5
