import csv
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cutline.cli import app
from cutline.demo import write_checkins


@pytest.fixture(scope="session")
def run() -> Callable[..., Result]:
    """Run the command line in this process; standard output and error are kept apart."""

    def call(*args: object) -> Result:
        return CliRunner().invoke(app, [str(arg) for arg in args])

    return call


@pytest.fixture(scope="session")
def checkins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("logs") / "checkins.parquet"
    write_checkins(path)
    return path


@pytest.fixture
def write_log(tmp_path: Path) -> Callable[..., Path]:
    """Write (user, item) rows to a CSV file with the given column names."""

    def write(rows: Iterable[tuple[object, object]], *, user: str = "user", item: str = "item") -> Path:
        path = tmp_path / "log.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow([user, item])
            writer.writerows(rows)
        return path

    return write
