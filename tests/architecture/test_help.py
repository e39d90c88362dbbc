"""Every command teaches by an example that names it."""

import re
from collections.abc import Iterator

import pytest
import typer
from typer.core import TyperGroup

from services.console.main import application

app = application()


def helps(group: TyperGroup, path: tuple[str, ...] = ("assay",)) -> Iterator[tuple[str, str]]:
    """Name and help text of every command below `group`."""
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from helps(command, (*path, name))
        else:
            yield " ".join((*path, name)), command.help or ""


def root() -> TyperGroup:
    found = typer.main.get_command(app)
    assert isinstance(found, TyperGroup)
    return found


HELPS = dict(helps(root()))


@pytest.mark.parametrize("name", HELPS)
def test_the_help_of_every_command_has_an_example_of_it(name: str) -> None:
    assert re.search(rf"Example: {re.escape(name)}\b", HELPS[name]), HELPS[name]


def test_there_are_commands_to_look_at() -> None:
    assert {"assay goal submit", "assay candidate verify", "assay events causation"} <= set(HELPS)
