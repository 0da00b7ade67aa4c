"""Logs of uniform users and Zipf(1.1) items, the same rows with integer and with string ids, written in chunks."""

from __future__ import annotations

import pathlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

USERS = ITEMS = 1_000_000
EXPONENT = 1.1
CHUNK = 1_000_000


def write_logs(directory: pathlib.Path, rows: int) -> dict[str, pathlib.Path]:
    """Write one parquet file per kind of id; memory stays at a few chunks whatever ``rows`` is."""
    random = np.random.default_rng(0)
    cumulative = np.cumsum(np.arange(1, ITEMS + 1) ** -EXPONENT)
    cumulative /= cumulative[-1]
    identities = random.permutation(ITEMS)  # the order of ids says nothing about ranks
    names = {
        "integers": (None, None),
        "strings": (
            pa.array([f"user-{n:07d}" for n in range(USERS)]),
            pa.array([f"venue/{n * 2654435761 % 2**32:08x}" for n in range(ITEMS)]),
        ),
    }
    paths = {kind: directory / f"{kind}.parquet" for kind in names}
    kinds = {"integers": pa.int64(), "strings": pa.string()}
    writers = {
        kind: pq.ParquetWriter(path, pa.schema([("user", kinds[kind]), ("item", kinds[kind])]))
        for kind, path in paths.items()
    }
    for start in range(0, rows, CHUNK):
        size = min(CHUNK, rows - start)
        users = pa.array(random.integers(0, USERS, size))
        ranks = np.searchsorted(cumulative, random.random(size)).clip(0, ITEMS - 1)
        items = pa.array(identities[ranks])
        for kind, (user_names, item_names) in names.items():
            pair = [users, items] if user_names is None else [user_names.take(users), item_names.take(items)]
            writers[kind].write_table(pa.table(pair, names=["user", "item"]))
    for writer in writers.values():
        writer.close()
    return paths
