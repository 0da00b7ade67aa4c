"""What is remembered for a second: right after every write, whoever else reads and forgets meanwhile."""

import asyncio

import pytest

from cutline.service.store import Recall

from .conftest import Clock


@pytest.fixture
def path(tmp_path):
    found = tmp_path / "store.db"
    found.write_bytes(b"first")
    return found


def test_it_is_read_once_and_again_after_a_write_or_a_second(path):
    clock, read = Clock(), []
    recall = Recall(path, clock)

    def look():
        read.append(path.read_bytes())
        return read[-1]

    assert (recall.get("a", look), recall.get("a", look), len(read)) == (b"first", b"first", 1)
    path.write_bytes(b"second, and longer")
    assert recall.get("a", look) == b"second, and longer"
    recall.writes += 1
    recall.get("a", look)
    clock.wait(seconds=1)
    recall.get("a", look)
    assert len(read) == 4


def test_what_was_written_while_it_was_read_is_not_remembered(path):
    recall = Recall(path, Clock())

    def look_too_early():
        recall.writes += 1
        return "old"

    assert recall.get("a", look_too_early) == "old"
    assert recall.get("a", lambda: "new") == "new"


def test_nothing_is_remembered_of_a_server():
    recall = Recall(None, Clock())
    assert [recall.get("a", lambda n=n: n) for n in range(2)] == [0, 1]


class Interrupted(Recall):
    """One in which another thread writes, and reads something else, just while this one looks at the clock."""

    armed = False

    def _now(self):
        if self.armed:
            self.armed = False
            self.writes += 1
            self.get("b", lambda: "other")
        return super()._now()


def test_forgetting_in_one_thread_leaves_others_an_answer_that_is_right(path):
    """What failed: the look found the key, and what it looked into was another dictionary by then."""
    recall = Interrupted(path, Clock())
    assert recall.get("a", lambda: "old") == "old"
    recall.armed = True
    assert asyncio.run(recall.get_soon("a", lambda: "new")) == "new"
    assert not recall.armed
