import numpy as np
import pytest

from cutline.errors import ParameterError
from cutline.sampling import SeededSource, Source, SystemSource, resolve


def test_none_is_the_operating_system():
    source = resolve(None)
    assert isinstance(source, SystemSource)
    assert source.seeded is False


def test_a_source_is_passed_through(script):
    for source in (SeededSource(3), SystemSource(), script([1])):
        assert isinstance(source, Source)
        assert resolve(source) is source


@pytest.mark.parametrize("wrong", [0, "system", np.random.default_rng(0), SeededSource, object()])
def test_anything_else_is_refused_with_the_way_out(wrong):
    with pytest.raises(ParameterError, match=r"Pass None .* or SeededSource"):
        resolve(wrong)


@pytest.mark.parametrize("seed", [None, -1, 1.5, True, "7"])
def test_a_seed_is_a_whole_number(seed):
    with pytest.raises(ParameterError, match="a seed must be"):
        SeededSource(seed)


@pytest.mark.parametrize("source", [SystemSource(), SeededSource(11)])
def test_words_are_uniform_in_every_bit(source):
    words = source.words(20_000)
    assert words.dtype == np.uint64
    assert words.shape == (20_000,)
    ones = np.array([int(((words >> np.uint64(bit)) & np.uint64(1)).sum()) for bit in range(64)])
    assert np.all(np.abs(ones - 10_000) < 7 * np.sqrt(5_000))  # 64 bits at 7 sigma
    assert source.words(0).shape == (0,)


def test_system_words_do_not_repeat():
    assert not np.array_equal(SystemSource().words(4), SystemSource().words(4))


def test_seeded_words_are_one_stream():
    whole, parts = SeededSource(5), SeededSource(5)
    assert np.array_equal(whole.words(10), np.concatenate([parts.words(3), parts.words(7)]))
    assert not np.array_equal(SeededSource(5).words(10), SeededSource(6).words(10))


def test_repr_shows_no_state():
    assert repr(SeededSource(123456)) == "SeededSource()"
    assert repr(SystemSource()) == "SystemSource()"
