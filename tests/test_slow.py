"""The list of slow tests names tests that exist, in order: a renamed test would otherwise slow `make quick` unseen."""

from pathlib import Path

HERE = Path(__file__).parent


def test_every_entry_is_a_test_and_stands_once():
    entries = (HERE / "slow.txt").read_text(encoding="utf-8").splitlines()
    assert entries == sorted(set(entries))
    for entry in entries:
        file, _, name = entry.partition("::")
        assert f"def {name}(" in (HERE.parent / file).read_text(encoding="utf-8"), entry
