r"""Multi-label PATE: teachers' ballots in, private labels out."""

from cutline.pate.aggregators.base import Aggregator
from cutline.pate.aggregators.optimal_vote import OptimalVote
from cutline.pate.aggregators.registry import AGGREGATORS, aggregator
from cutline.pate.ballots import count_ballots, limit_ballots
from cutline.pate.labels import Labels

__all__ = ["AGGREGATORS", "Aggregator", "Labels", "OptimalVote", "aggregator", "count_ballots", "limit_ballots"]
