import json

import numpy as np

NUMBERS = ["plan-labels", "--records", 3000, "--epsilon", 4]


def test_a_plan_from_numbers_alone(run):
    result = run(*NUMBERS, "--labels", 4, "--teachers", 30, "--teachers", 200, "--limit", 1)
    text = " ".join(result.stdout.split())
    assert result.exit_code == 0
    assert "3,000 records, 4 labels, 100 queries, delta = 1e-06" in text
    assert "clear" in text
    assert "F1" not in text
    assert "Each teacher would learn from 15 records" in text


def test_a_plan_with_public_examples(run, tmp_path):
    features = np.random.default_rng(0).normal(size=(200, 2))
    np.savez(tmp_path / "public.npz", X=features, y=(features[:, 0] > 0).astype(int))
    options = ["--labels", 2, "--classes", "--teachers", 60, "--examples", tmp_path / "public.npz"]
    text = " ".join(run(*NUMBERS, *options).stdout.split())
    assert "against one rival" in text
    assert "from the public examples alone" in text
    plain = json.loads(run(*NUMBERS, *options, "--json").stdout)
    assert plain["options"][0]["right"] > 0.8
    error = json.loads(run(*NUMBERS, "--labels", 2, "--examples", tmp_path / "none.npz", "--json").stdout)["error"]
    assert "arrays named X and y" in error["rule"]
