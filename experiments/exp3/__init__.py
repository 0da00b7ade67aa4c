"""EXP3 of the paper: multi-label PATE, its cost in the paper's setting, and every aggregator on the same ballots."""
