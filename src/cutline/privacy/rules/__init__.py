r"""Rules that turn a cost into an epsilon, one file a rule."""
