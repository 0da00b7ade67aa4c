import json

import pytest

from cutline.demo import LANDMARKS
from cutline.privacy import Cost

KEYS = [
    "status",
    "why",
    "next_steps",
    "released",
    "items",
    "ordered",
    "k",
    "mechanism",
    "adjacency",
    "epsilon",
    "delta",
    "releases",
    "cost",
    "counts",
    "count_error",
    "guarantee",
    "seeded",
    "ledger",
    "entry",
    "repeated_from",
    "version",
    "unsettled",
]


def crowd(items, people=400):
    """Everybody has every item: a cliff below the last one that no test can miss."""
    return [(f"u{i}", item) for i in range(people) for item in items]


def test_the_true_top_comes_out_in_item_order(run, checkins):
    result = run("top", checkins, "--user", "user_id", "--item", "venue")
    assert result.exit_code == 0
    places = [result.stdout.index(name) for name in LANDMARKS]
    assert places == sorted(places)
    assert "(1, 1e-06)-DP for one user joining or leaving" in " ".join(result.stdout.split())
    assert "The top 12" in result.stdout
    assert result.stderr == ""


def test_json_is_the_object_of_the_contract(run, checkins):
    result = run("top", checkins, "--user", "user_id", "--item", "venue", "--json", "--releases", "3")
    plain = json.loads(result.stdout)
    assert list(plain) == KEYS
    assert plain["items"] == list(LANDMARKS)
    assert (plain["released"], plain["k"], plain["ordered"], plain["seeded"]) == (True, 12, False, False)
    assert (plain["epsilon"], plain["delta"], plain["releases"]) == (1.0, 1e-6, 3)
    assert (plain["status"], plain["adjacency"]) == ("released", "add-remove")
    assert plain["counts"] is None
    assert plain["cost"]["kinds"] == {"bounded-range": 1, "bit-table": 1}
    assert 0 < plain["cost"]["slack"] < plain["cost"]["delta"] == 1e-6
    assert plain["cost"]["order"] > 1
    assert 0 < plain["cost"]["rdp"] < plain["cost"]["epsilon"] < 1
    assert (result.exit_code, result.stderr) == (0, "")


def test_json_is_short_and_the_whole_cost_comes_on_request(run, checkins):
    asked = ["top", checkins, "--user", "user_id", "--item", "venue", "--k", 10, "--json"]
    short, whole = run(*asked), run(*asked, "--full")
    assert len(short.stdout.splitlines()) < 60 < 300 < len(whole.stdout.splitlines())
    cost = Cost.from_dict(json.loads(whole.stdout)["cost"])
    summary = json.loads(short.stdout)["cost"]
    assert cost.adjacency == "add-remove"
    if cost.summary(1e-6)["kinds"] == summary["kinds"]:  # the same steps ran
        assert cost.summary(1e-6) == summary


@pytest.mark.parametrize(
    ("options", "described"),
    [
        (["--choose", "argmax"], {"choose": "argmax", "test": "table"}),
        (["--test", "gaussian"], {"choose": "em", "test": "gaussian"}),
        (["--adjacency", "replace"], {"adjacency": "replace"}),
        (["--min-k", 5, "--max-k", 30], {"min_k": 5, "max_k": 30}),
        (["--target", 12, "--weight", 300, "--clip", 590], {"target": 12, "weight": 300.0, "clip": 590}),
        (["--memory-limit", "1GB", "--where", "day >= '2024-01-01'"], {"max_k": 100}),
    ],
)
def test_options_reach_the_mechanism(run, checkins, options, described):
    result = run("top", checkins, "--user", "user_id", "--item", "venue", "--json", *options)
    plain = json.loads(result.stdout)
    assert described.items() <= plain["mechanism"].items()
    assert plain["items"] == list(LANDMARKS)


@pytest.mark.parametrize("rows", [[], [(1, "only")], [(i, f"item {i}") for i in range(300)]])
@pytest.mark.parametrize("as_json", [True, False])
def test_a_log_without_a_gap_is_withheld_and_done(run, write_log, rows, as_json):
    log = write_log(rows)
    result = run("top", log, "--user", "user", "--item", "item", *(["--json"] if as_json else []))
    assert (result.exit_code, result.stderr) == (0, "")
    if as_json:
        plain = json.loads(result.stdout)
        assert (plain["released"], plain["items"]) == (False, None)
        assert plain["k"] == 0  # one draw, which shows k only with its set
    else:
        assert result.stdout.startswith("Withheld: the set did not pass")
        assert "only" not in result.stdout
        assert "item 7" not in result.stdout


def test_a_single_release_is_one_draw_and_says_so(run, checkins):
    plain = json.loads(run("top", checkins, "--user", "user_id", "--item", "venue", "--json").stdout)
    assert plain["mechanism"]["choose"] == "joint"
    assert plain["guarantee"].endswith("stable-top-k with max_k = 100, choose = joint.")
    assert plain["cost"]["kinds"] == {"pure": 1}
    assert (plain["cost"]["epsilon"], plain["cost"]["slack"], plain["cost"]["order"]) == (1.0, 1e-6, None)


def test_a_wish_for_larger_k_is_one_word(run, write_log):
    people = range(400)
    rows = [(i, "all") for i in people] + [(i, f"most {j}") for i in people[:300] for j in range(19)]
    asked = ["top", write_log(rows), "--user", "user", "--item", "item", "--json"]
    assert json.loads(run(*asked).stdout)["k"] == 20  # a gap of 300 over one of 100
    wished = json.loads(run(*asked, "--prefer-larger", "--max-k", 30).stdout)
    assert wished["mechanism"]["prefer_larger"] is True
    assert wished["k"] in (1, 20)
    refused = run(*asked, "--prefer-larger", "--choose", "em")
    assert refused.exit_code == 1
    assert "prior" in json.loads(refused.stdout)["error"]["rule"]


def test_a_withheld_em_shows_k(run, write_log):
    result = run("top", write_log([]), "--user", "user", "--item", "item", "--choose", "em")
    assert result.stdout.startswith("Withheld: the set at k = ")


def test_a_withheld_argmax_does_not_show_k(run, write_log):
    result = run("top", write_log([]), "--user", "user", "--item", "item", "--choose", "argmax")
    assert result.stdout.startswith("Withheld: the set did not pass")


def test_fewer_items_than_the_smallest_cut(run, write_log):
    """Past the seen items all gaps are 0, so nothing may stop at what was seen: k still ranges over the window."""
    options = ["--user", "user", "--item", "item", "--max-k", 6, "--min-k", 2, "--json"]
    plain = json.loads(run("top", write_log(crowd(["a", "b", "c"])), *options).stdout)
    assert (plain["items"], plain["k"]) == (["a", "b", "c"], 3)


@pytest.mark.parametrize("size", [3, 5, 200])
def test_a_closed_domain_smaller_and_larger_than_max_k(run, write_log, tmp_path, size):
    candidates = tmp_path / "candidates.txt"
    candidates.write_text("".join(f"c{i:03}\r\n" for i in range(size)), encoding="utf-8", newline="")
    log = write_log(crowd(["c000", "c001", "unlisted"]))
    options = ["--user", "user", "--item", "item", "--max-k", 5, "--json", "--candidates"]
    plain = json.loads(run("top", log, *options, candidates).stdout)
    assert (plain["items"], plain["k"]) == (["c000", "c001"], 2)


def test_candidates_of_a_number_column_come_as_json(run, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    log, candidates = tmp_path / "log.parquet", tmp_path / "candidates.json"
    people = list(range(400))
    pq.write_table(pa.table({"who": people * 2, "what": [10] * 400 + [9] * 400}), log)
    candidates.write_text("[9, 10, 11]")
    result = run("top", log, "--user", "who", "--item", "what", "--candidates", candidates, "--json")
    assert json.loads(result.stdout)["items"] == [9, 10]
    text = run("top", log, "--user", "who", "--item", "what", "--candidates", candidates).stdout
    assert text.index(" 9 ") < text.index(" 10 ")


def test_odd_names_are_shown_and_not_obeyed(run, write_log):
    odd = [
        "[red]markup[/red]",
        ":smile: 'quoted' \"twice\"",
        "bell\x07 and \x1b[31mcolour",
        "Ærø — 東京 🍣",
        "a\u202eb",
    ]
    log = write_log(crowd(odd), user="who's there?", item='wh"at; DROP TABLE log --')
    options = ["--user", "who's there?", "--item", 'wh"at; DROP TABLE log --']
    result = run("top", log, *options)
    assert result.exit_code == 0
    assert "[red]markup[/red]" in result.stdout
    assert ":smile: 'quoted' \"twice\"" in result.stdout
    assert "bell\\x07 and \\x1b[31mcolour" in result.stdout
    assert "a\\u202eb" in result.stdout
    assert "Ærø — 東京 🍣" in result.stdout
    assert not {"\x07", "\x1b", "\u202e"} & set(result.stdout)
    as_json = run("top", log, *options, "--json").stdout
    assert as_json.isascii()
    assert json.loads(as_json)["items"] == sorted(odd)


def test_a_plot_is_written_and_said_on_standard_error(run, checkins, tmp_path):
    figure = tmp_path / "release.svg"
    result = run("top", checkins, "--user", "user_id", "--item", "venue", "--json", "--plot", figure)
    assert json.loads(result.stdout)["k"] == 12
    assert result.stderr == f"Figure written to {figure}\n"
    drawn = figure.read_text(encoding="utf-8")
    assert "Old Town Square" in drawn
    assert "Lantern Barbers" not in drawn


def test_a_bound_on_items_per_user_finds_items_of_a_log(run, write_log):
    log = write_log([*crowd(["a", "b", "c"]), *((f"u{n}", f"rare {n}") for n in range(400))])
    options = ["--user", "user", "--item", "item", "--max-items-per-user", "4", "--json"]
    found = json.loads(run("top", log, *options).stdout)
    assert (found["mechanism"]["name"], found["items"]) == ("table-threshold", ["a", "b", "c"])
    few = json.loads(run("top", log, *options, "--k", "20", "--counts").stdout)
    assert (few["status"], few["mechanism"]["name"], few["items"]) == ("partial", "find-then-choose", ["a", "b", "c"])
    assert all(abs(n - 400) < 400 for n in few["counts"])


ASKED = ("--user", "user", "--item", "item", "--k", "2", "--max-items-per-user", "4", "--json")


@pytest.mark.parametrize(
    ("words", "of"),
    [
        ("--counts LOG", None),  # the word after it is the log
        ("LOG --counts", None),
        ("--counts -- LOG", None),
        ("--counts=all LOG", None),
        ("--counts bounded LOG", "users after the bound"),
        ("LOG --counts bounded", "users after the bound"),
        ("--counts=bounded LOG", "users after the bound"),
        ("--bounded-counts LOG", "users after the bound"),
        ("--counts LOG --bounded-counts", "users after the bound"),
    ],
)
def test_counts_stand_alone_or_before_the_word_bounded(run, write_log, words, of):
    log = write_log(crowd(["a", "b"]))
    plain = json.loads(run("top", *ASKED, *(log if word == "LOG" else word for word in words.split())).stdout)
    assert plain["items"] == ["a", "b"]
    assert len(plain["counts"]) == 2
    assert plain["mechanism"]["counts"].get("of") == of


def test_a_column_that_is_called_like_the_option_is_no_option(run, tmp_path):
    (tmp_path / "log.csv").write_text("user,--counts\n" + "".join(f"{user},tea\n" for user in range(400)))
    plain = json.loads(run("top", "--user", "user", "--item", "--counts", tmp_path / "log.csv", "--json").stdout)
    assert (plain["items"], plain["counts"]) == (["tea"], None)


def test_other_words_for_counts_are_wrong_usage(run, write_log):
    refused = run("top", write_log(crowd(["a"])), *ASKED, "--counts=some")
    assert refused.exit_code == 2
    assert "'some' is not one of 'all', 'bounded'" in refused.stderr


def test_where_keeps_some_rows(run, write_log):
    log = write_log(crowd(["kept", "dropped"]))
    result = run("top", log, "--user", "user", "--item", "item", "--where", "item <> 'dropped'", "--json")
    assert json.loads(result.stdout)["items"] == ["kept"]


def test_the_format_is_that_of_the_name_unless_it_is_given(run, tmp_path):
    path = tmp_path / "log.txt"
    path.write_text("".join(json.dumps({"who": who, "what": what}) + "\n" for who, what in crowd(["tea"])))
    asked = ("top", path, "--user", "who", "--item", "what", "--json")
    assert json.loads(run(*asked, "--format", "jsonl").stdout)["items"] == ["tea"]
    for wrong, words in (((), "the extension must be"), (("--format", "xml"), "parquet, csv, tsv, json, jsonl")):
        refused = run(*asked, *wrong)
        assert refused.exit_code == 1
        assert words in refused.stdout
