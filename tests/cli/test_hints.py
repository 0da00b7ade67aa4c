"""The last cut at the command line."""

import json

from cutline.ledger import Ledger
from cutline.privacy import Budget


def test_a_list_that_is_published_again(run, tmp_path):
    log, books = tmp_path / "log.csv", tmp_path / "books.db"
    log.write_text("user,venue\n" + "".join(f"u{n},v{v}\n" for n in range(900) for v in range(3)), encoding="utf-8")
    with Ledger(books) as ledger:
        ledger.create("visits", budget=Budget(epsilon=1.0, delta=1e-6, releases=20), owner="ann")
    common = ["top", str(log), "--user", "user", "--item", "venue", "--max-k", "20", "--json"]
    account = ["--ledger", str(books), "--dataset", "visits"]
    printed = [json.loads(run(*common, *account, *more).stdout) for more in ([], [], ["--no-hint"], ["--hint", "2"])]
    assert [one["mechanism"]["name"].split("-")[0] for one in printed] == ["stable", "hinted", "stable", "hinted"]
    assert [one["k"] for one in printed] == [3, 3, 3, 3]
    assert printed[3]["mechanism"]["hint_from"] == "caller"
