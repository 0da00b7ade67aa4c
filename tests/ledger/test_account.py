"""What the books tell is plain data, and its sums are exact."""

import json
import pickle
from fractions import Fraction

from cutline.ledger.account import Sums


def test_records_are_plain_and_pickle(ledger, cost):
    reservation = ledger.reserve(cost, dataset="visits", mechanism={"name": "test"})
    account = ledger.show("visits")
    assert pickle.loads(pickle.dumps(reservation)) == reservation
    assert pickle.loads(pickle.dumps(account)) == account
    plain = json.loads(json.dumps(account.to_dict()))
    assert (plain["remaining_releases"], plain["state"], plain["unit"]) == (9, "open", "user_id")
    assert "(1, 1e-06)-DP for one user joining or leaving" in plain["guarantee"]


def test_sums_are_exact_where_floats_are_not():
    step = Sums(rdp=Fraction(0.1), delta=Fraction(1e-9))
    total = Sums()
    for _ in range(1000):
        total += step
    for _ in range(1000):
        total -= step
    assert total == Sums()
    drift = 0.0
    for sign in (1, -1):
        for _ in range(1000):
            drift += sign * 0.1
    assert drift != 0.0
