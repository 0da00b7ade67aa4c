r"""Starting: the first files of a new service, a service over made-up check-ins, and the process that serves."""

from __future__ import annotations

import logging
import socket
from pathlib import Path

import uvicorn

from cutline.demo import LANDMARKS, checkins
from cutline.errors import ParameterError
from cutline.privacy import Budget
from cutline.service.app import create_app
from cutline.service.catalogue import Description, Groups
from cutline.service.certificates import create_key
from cutline.service.config import Config, write_example
from cutline.service.office import Office
from cutline.service.people import Caller

DEMO_DATASET = "check-ins"
DEMO_ROLES = {"ann": "analyst", "olga": "owner", "rita": "reviewer", "ada": "admin"}
_DEMO_USERS = 20_000
_DEMO_SOURCE = '\n[sources.checkins]\npath = "checkins.parquet"\n'


def prepare(path: Path, *, owner: str, admin: str) -> dict[str, str]:
    """Write settings and a signing key, and return the one-time links of the first administrator and the first owner."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_example(path)
        create_key(path.parent / "signing.key")
    except OSError:
        raise ParameterError(
            "the settings and the signing key are written once, in a folder that can be written",
            repr(path.name),
            "Choose a folder without them, or serve what is there.",
        ) from None
    office = Office(Config.read(path))
    try:
        return {
            name: f"{office.config.public_origin}/welcome/{office.people.invite(name, role)}"
            for name, role in ((admin, "admin"), (owner, "owner"))
        }
    finally:
        office.close()


def write_demo(folder: Path) -> Path:
    """Write a made-up log, settings and a key into a folder, unless they are there; return the file of settings."""
    path = folder / "service.toml"
    if not path.exists():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _write_log(folder / "checkins.parquet")
        except OSError:
            raise ParameterError(
                "the demo writes its files into a folder", repr(folder.name), "Choose one that can be written."
            ) from None
        prepare(path, owner="olga", admin="ada")
        with path.open("a", encoding="utf-8") as file:
            file.write(_DEMO_SOURCE)
    return path


def invite_demo(config: Config) -> dict[str, str]:
    """Register the made-up log, unless it is; return everybody's new one-time links, the analyst's first."""
    check_port(config)
    office = Office(config)
    try:
        links = {name: office.invite(name, role) for name, role in DEMO_ROLES.items()}
        owner = office.people.find("olga")
        if owner is not None and not office.catalogue.listed(Caller(person=owner)):
            _register_demo(office, Caller(person=owner))
        return links
    finally:
        office.close()


def check_port(config: Config) -> None:
    """Refuse an address that another process listens on, before anything is printed or written for it."""
    family = socket.AF_INET6 if ":" in config.address else socket.AF_INET
    with socket.socket(family) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((config.address, config.port))
        except OSError:
            raise ParameterError(
                "the service needs an address that is free",
                f"{config.address}, port {config.port}",
                "Stop what listens there, or take another port: in service.toml, or by --port for the demo.",
            ) from None


def serve(config: Config, *, log_level: int = logging.INFO) -> None:
    """Serve until a signal ends it; requests in flight are finished, and queued jobs wait for the next process."""
    check_port(config)
    logging.basicConfig(format="%(message)s", level=log_level)
    uvicorn.run(
        create_app(Office(config)),
        host=config.address,
        port=config.port,
        ssl_certfile=None if config.certificate is None else config.place(config.certificate),
        ssl_keyfile=None if config.private_key is None else config.place(config.private_key),
        proxy_headers=config.behind_proxy,
        access_log=False,  # its lines hold addresses and whole paths
        server_header=False,
        log_level="warning",
        timeout_graceful_shutdown=60,
    )


def _write_log(path: Path) -> None:
    """Write the check-ins of a made-up city, with the month of each beside its day."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    log = checkins(users=_DEMO_USERS)
    pq.write_table(log.append_column("month", pc.strftime(log["day"], "%Y-%m")), path)


def _register_demo(office: Office, owner: Caller) -> None:
    description = Description(
        title="Check-ins of a made-up city",
        source="checkins",
        user="user_id",
        items=("venue",),
        filters={"in March": "month = '2024-03'", "on the first of May": "day = DATE '2024-05-01'"},
        groups={"month": Groups(values=("2024-03", "2024-04", "2024-05"))},
        practice_names=LANDMARKS,
    )
    budget = Budget(epsilon=1.0, delta=1e-6, releases=50)
    dataset = office.register(owner, DEMO_DATASET, description, version="2024-06", period="2024", budget=budget)
    office.catalogue.grant(dataset, "ann", role="analyst")
    office.catalogue.grant(dataset, "rita", role="reviewer")
