"""The paper's experiments, run as ``python -m experiments NAME``; they use Cutline as anybody would and ship to nobody."""
