r"""Multi-label PATE: teachers' ballots in, private labels out."""

from cutline.pate.aggregator import Aggregator
from cutline.pate.ballots import count_ballots, limit_ballots
from cutline.pate.labels import Labels
from cutline.pate.optimal_vote import OptimalVote
from cutline.pate.registry import AGGREGATORS, aggregator

__all__ = ["AGGREGATORS", "Aggregator", "Labels", "OptimalVote", "aggregator", "count_ballots", "limit_ballots"]
