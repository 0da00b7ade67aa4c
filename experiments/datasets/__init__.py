r"""The data of the experiments: public originals, the subsets of them in common use, or generated data of the same shape.

A directory is given: the files are read and checked, and a missing or misshapen one is refused; `available` tells which are
there. No directory is given: data of the same shape are generated from a fixed seed, and every title says so.
"""

from experiments.datasets.catalogue import available, files_of
from experiments.datasets.covid import CovidData, load_covid
from experiments.datasets.labels import LabelData, load_celeba, load_multilabel
from experiments.datasets.logs import LOGS, LogData, load_log

__all__ = [
    "LOGS",
    "CovidData",
    "LabelData",
    "LogData",
    "available",
    "files_of",
    "load_celeba",
    "load_covid",
    "load_log",
    "load_multilabel",
]
