"""Directives that write the reference from the package itself, so that it cannot fall behind.

``cutline-names`` documents what a module exports, ``cutline-help`` prints the help of every command, and ``cutline-schema``
shows a JSON schema as a table. Each writes Markdown and lets the page's own parser read it.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

SCHEMAS = Path(__file__).parent / "reference" / "schemas"


def list_names(module: str) -> list[str]:
    """Return what a module exports, or its classes and functions if it names no exports; the package's own names come once."""
    home = import_module(module)
    names = getattr(home, "__all__", None)
    if names is None:
        found = {name: value for name, value in vars(home).items() if not name.startswith("_")}
        names = [name for name, value in found.items() if getattr(value, "__module__", None) == module]
    face = set() if module == "cutline" else set(import_module("cutline").__all__)
    return [name for name in names if name not in face and not name.startswith("__")]


def describe_names(module: str) -> Iterator[str]:
    """Yield the Markdown that documents what a module exports: functions first, then classes, then values."""
    home = import_module(module)
    kinds: dict[str, list[str]] = {"autofunction": [], "autoclass": [], "autodata": []}
    for name in list_names(module):
        value = getattr(home, name)
        kind = "autoclass" if inspect.isclass(value) else "autofunction" if inspect.isroutine(value) else "autodata"
        kinds[kind].append(name)
    yield "````{eval-rst}"
    for kind, names in kinds.items():
        for name in sorted(names, key=str.lower):
            yield f".. {kind}:: {module}.{name}"
            if kind == "autoclass":
                yield "   :members:"
            if kind == "autodata":
                yield "   :no-value:"
            yield ""
    yield "````"


def list_commands() -> Iterator[tuple[str, str]]:
    """Yield every command's full name with its help, in 92 columns; groups come before their commands."""
    import typer.main

    from cutline.cli import app

    def walk(command: Any, name: str, parent: Any) -> Iterator[tuple[str, str]]:
        sizes = {"terminal_width": 92, "max_content_width": 92}
        settings = {**command.context_settings, **sizes}
        context = type(command).context_class(command, info_name=name, parent=parent, **settings)
        yield context.command_path, command.get_help(context)
        for each, below in getattr(command, "commands", {}).items():
            if not below.hidden:  # an old name of a command that is listed
                yield from walk(below, each, context)

    yield from walk(typer.main.get_command(app), "cutline", None)


def describe_commands() -> Iterator[str]:
    """Yield the Markdown of the command line's reference: one heading and one block a command."""
    for name, told in list_commands():
        yield f"{'#' * min(4, 1 + len(name.split()))} {name}"
        yield ""
        yield "```text"
        yield from told.rstrip().splitlines()
        yield "```"
        yield ""


def describe_schema(schema: dict[str, Any]) -> Iterator[str]:
    """Yield the Markdown of a schema: what it is of, and a row for every key; keys of keys follow theirs."""
    yield f"{schema['description']} {{download}}`The schema <schemas/{schema['$id']}>`."
    yield ""
    yield "| key | type | what it says |"
    yield "|---|---|---|"
    for key, part in walk_schema(schema):
        yield f"| `{key}` | {name_type(part)} | {part.get('description', '').replace('|', chr(92) + '|')} |"
    yield ""


def walk_schema(schema: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each key of an object with its part of the schema, depth first; a list's objects are written ``key[]``."""
    for key, part in schema.get("properties", {}).items():
        yield prefix + key, part
        yield from walk_schema(part, f"{prefix}{key}.")
        yield from walk_schema(part.get("items", {}), f"{prefix}{key}[].")


def name_type(part: dict[str, Any]) -> str:
    """Name the type of a value in words."""
    if "enum" in part:
        return ", ".join(f"`{json.dumps(value)}`" for value in part["enum"])
    if "$ref" in part:
        name = Path(part["$ref"]).name.removesuffix(".schema.json")
        return f"[{name}](#{name})"
    if "anyOf" in part:
        return " or ".join(name_type(each) for each in part["anyOf"])
    kinds = part.get("type", "any")
    return " or ".join([kinds] if isinstance(kinds, str) else kinds)


class Written(SphinxDirective):
    """A directive whose text a function writes in Markdown."""

    has_content = False
    optional_arguments = 1

    def write(self) -> Iterator[str]:
        """Yield the lines of the text."""
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        return self.parse_text_to_nodes("\n".join(self.write()), allow_section_headings=True)


class Names(Written):
    """What a module exports."""

    def write(self) -> Iterator[str]:
        return describe_names(self.arguments[0])


class Help(Written):
    """The help of every command."""

    def write(self) -> Iterator[str]:
        return describe_commands()


class Schema(Written):
    """A JSON schema as a table."""

    def write(self) -> Iterator[str]:
        path = SCHEMAS / f"{self.arguments[0]}.schema.json"
        self.env.note_dependency(str(path))
        return describe_schema(json.loads(path.read_text(encoding="utf-8")))


def list_new_pages(app: Sphinx, page: str, source: list[str]) -> None:
    """Put pages beside the index that it does not name into its list, so that a new page cannot be forgotten."""
    if page == "index":
        named = set(re.findall(r"^[\w/-]+$", source[0], flags=re.MULTILINE))
        new = sorted(name for name in app.env.found_docs if "/" not in name and name not in {*named, "index"})
        source[0] = source[0].replace("(pages named nowhere else)\n", "".join(f"{name}\n" for name in new))


def skip_routing(app: Sphinx, what: str, name: str, obj: object, skip: bool, options: object) -> bool | None:
    """Leave out the methods that scikit-learn adds to every estimator; their text refers to its own pages."""
    del app, what, obj, options
    return True if name.startswith("set_") and name.endswith("_request") else skip or None


def trim_blocks(app: Sphinx, doctree: nodes.document) -> None:
    """Take away the blank line that ends a doctest before its fence; a reader need not see it."""
    del app
    for block in doctree.findall(nodes.literal_block):
        text = block.astext().rstrip()
        block.rawsource, block.children = text, [nodes.Text(text)]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives."""
    app.add_directive("cutline-names", Names)
    app.add_directive("cutline-help", Help)
    app.add_directive("cutline-schema", Schema)
    app.connect("doctree-read", trim_blocks)
    app.connect("source-read", list_new_pages)
    app.connect("autodoc-skip-member", skip_routing)
    return {"parallel_read_safe": True}
