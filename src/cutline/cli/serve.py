r"""``cutline serve`` and ``cutline verify-release``: the service, and the offline check of what it signed."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from cutline.cli import options as o
from cutline.cli.door import guarded, print_json, printable
from cutline.errors import ParameterError
from cutline.extras import require

serve = typer.Typer(
    name="serve",
    invoke_without_command=True,
    rich_markup_mode=None,
)
_DEMO = """
1. Open this link, and choose a password of 12 characters or more:

   {link}

2. Click "Check-ins of a made-up city", then "Ask, and pay": you are {first}, an
   analyst, and the answer comes with what it cost. All of the data are made up.

The link works once; after that, {first} signs in at {origin}.
The other people of the demo, for another browser or a private window:
"""
_DEEDS = {
    "owner": "owns the log: budget, who may ask, versions, periods",
    "reviewer": "reads every question, answer, cost and guarantee",
    "admin": "invites people, and sees no data",
}
ConfigFile = Annotated[Path, typer.Option("--config", metavar="FILE", help="The file of settings.")]


@serve.command()
@guarded
def init(
    owner: Annotated[str, typer.Option(metavar="NAME", help="Who registers logs and answers for their budgets.")],
    admin: Annotated[str, typer.Option(metavar="NAME", help="Who invites people, and sees no data.")] = "admin",
    config: ConfigFile = Path("service.toml"),
) -> None:
    """Write settings and a signing key, and print one-time links for the first two people.

    \b
    Example:
      cutline serve init --owner olga
    """  # noqa: D301 - \b is the mark for lines that help must not refill
    run = _load()
    links = run.prepare(config, owner=owner, admin=admin)
    typer.echo(f"Settings written to {printable(config)}; name your logs there, then: cutline serve")
    _print_links(links)


@serve.callback()
@guarded
def start(context: typer.Context, config: ConfigFile = Path("service.toml")) -> None:
    """Serve pages and a REST interface where people ask within a budget, until it is stopped.

    \b
    Example:
      cutline serve demo
      cutline serve init --owner olga
      cutline serve --config service.toml
    """  # noqa: D301 - \b is the mark for lines that help must not refill
    if context.invoked_subcommand is None:
        run = _load()
        _serve(run, run.Config.read(config))


@serve.command()
@guarded
def demo(
    folder: Annotated[Path, typer.Option(metavar="DIR", help="Where its files go.")] = Path("serve-demo"),
    port: Annotated[int | None, typer.Option(metavar="N", help="Where it listens, on this machine alone.")] = None,
) -> None:
    """Serve made-up check-ins: open the first link, choose a password, and ask.

    \b
    Example:
      cutline serve demo
    """  # noqa: D301 - \b is the mark for lines that help must not refill
    typer.echo("Preparing the check-ins of a made-up city, and a budget for questions about them.", err=True)
    run = _load()
    config = run.Config.read(run.write_demo(folder))
    config = config if port is None else replace(config, port=port)
    links = run.invite_demo(config)
    first, *others = links
    typer.echo(_DEMO.format(first=first, link=links[first], origin=config.public_origin))
    for name in others:
        typer.echo(f"   {name} {_DEEDS[run.DEMO_ROLES[name]]}\n   {links[name]}")
    typer.echo("\nServing until Ctrl-C.", err=True)
    run.serve(config, log_level=logging.WARNING)


@guarded
def verify_release(
    certificate: Annotated[Path, typer.Argument(metavar="FILE", help="A certificate of the service.")],
    key: Annotated[str, typer.Option(metavar="KEY", help="The service's public key, as its owner published it.")],
    as_json: o.AsJson = False,
) -> None:
    """Check, offline, that a service signed a release. Exit 1 if it did not.

    \b
    Example:
      cutline verify-release check-ins-7-certificate.json --key 'MCow...='
    """  # noqa: D301 - \b is the mark for lines that help must not refill
    from cutline.service.certificates import check

    try:
        plain = json.loads(certificate.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        plain = None
    if not isinstance(plain, dict):
        raise ParameterError("a certificate is a file of JSON", repr(certificate.name), "Download it again.")
    facts = check(plain, public_key=key)
    if as_json:
        print_json({"signed": True, "facts": facts})
        return
    from cutline.cli.show import print_facts, results

    shown = (
        "dataset",
        "entry",
        "asked_at",
        "data_version",
        "guarantee",
        "account_guarantee",
        "chain_head",
        "signed_at",
    )
    print_facts(results(), {"signature": "fits the key", **{name: printable(facts.get(name, "")) for name in shown}})


def _load() -> Any:
    needed = "fastapi uvicorn jinja2 argon2 cryptography joserfc python_multipart prometheus_client"
    for module in needed.split():
        require(module, extra="service", purpose="the service")
    from cutline.service import run

    return run


def _serve(run: Any, config: Any) -> None:
    typer.echo(f"Serving on {config.public_origin} until Ctrl-C.", err=True)
    run.serve(config)


def _print_links(links: dict[str, str]) -> None:
    for name, link in links.items():
        typer.echo(f"{printable(name)}: {link}")
