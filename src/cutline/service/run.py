r"""Starting: the first files of a new service, a service over made-up check-ins, and the process that serves."""

from __future__ import annotations

import logging
from pathlib import Path

import uvicorn

from cutline.demo import write_checkins
from cutline.errors import ParameterError
from cutline.privacy import Budget
from cutline.service.app import create_app
from cutline.service.catalogue import Description, Groups
from cutline.service.certificates import create_key
from cutline.service.config import Config, write_example
from cutline.service.office import Office
from cutline.service.people import Caller

DEMO_DATASET = "check-ins"
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


def prepare_demo(folder: Path) -> dict[str, str]:
    """Write a service over made-up check-ins, with a dataset to ask about; return everybody's one-time links."""
    path = folder / "service.toml"
    if not path.exists():
        prepare(path, owner="olga", admin="ada")
        write_checkins(folder / "checkins.parquet", users=3000)
        with path.open("a", encoding="utf-8") as file:
            file.write(_DEMO_SOURCE)
    office = Office(Config.read(path))
    try:
        roles = {"ann": "analyst", "olga": "owner", "rita": "reviewer", "ada": "admin"}
        links = {name: office.people.invite(name, role) for name, role in roles.items()}
        owner = office.people.find("olga")
        if owner is not None and not office.catalogue.listed(Caller(person=owner)):
            _register_demo(office, Caller(person=owner))
        return {name: f"{office.config.public_origin}/welcome/{link}" for name, link in links.items()}
    finally:
        office.close()


def serve(config: Config) -> None:
    """Serve until a signal ends it; requests in flight are finished, and queued jobs wait for the next process."""
    logging.basicConfig(format="%(message)s", level=logging.INFO)
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


def _register_demo(office: Office, owner: Caller) -> None:
    days = tuple(f"2024-03-{day:02d}" for day in range(1, 8))
    description = Description(
        title="Check-ins of a made-up city",
        source="checkins",
        user="user_id",
        items=("venue",),
        filters={"in March": "day < DATE '2024-04-01'", "in May": "day >= DATE '2024-05-01'"},
        groups={"day": Groups(values=days, max_groups_per_user=2)},
    )
    budget = Budget(epsilon=5.0, delta=1e-6, releases=50)
    dataset = office.register(owner, DEMO_DATASET, description, version="2024-06", period="2024", budget=budget)
    office.catalogue.grant(dataset, "ann", role="analyst")
    office.catalogue.grant(dataset, "rita", role="reviewer")
