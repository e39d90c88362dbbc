"""What the documents name exists: tests, links, settings, commands, metrics. And they name no machine."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from services.console.exits import Exit
from services.console.main import application
from services.runtime.metrics import Metrics
from services.runtime.settings import known_variables

app = application()

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = (
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    *sorted(path for path in (ROOT / "docs").rglob("*") if path.suffix in (".md", ".svg")),
)
TEXTS = tuple(path for path in DOCUMENTS if path.suffix == ".md")
EVERY_DOCUMENT = pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
EVERY_TEXT = pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)

LINK = re.compile(r"\]\(([^)\s]+)\)")
ROOMS = "pure|contract|integration|chaos|zoo|e2e|golden|architecture|ptx"
NAMED_TEST = re.compile(rf"`((?:{ROOMS})/test_\w+\.py)::(test_\w+)`")
SETTING = re.compile(r"ASSAY_[A-Z_]*[A-Z]")
COMMAND = re.compile(r"(?<![\w./-])assay((?: [a-z][a-z-]*)+)")
OPTION = re.compile(r"(?<=\s)(--?[a-z][a-z-]*)")
METRIC = re.compile(r"`(assay_[a-z_]+)`")
FILE = re.compile(r"`((?:schemas|kernel_lab|services|infra|tests|benchmarks|examples)/[\w./-]+\.\w+)`")
HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
MACHINE_PATH = re.compile(r"(?<![\w.$~{}-])/(?:home|root|work|Users|mnt|media|tmp)/\S*|[\w.-]+\.internal\b")


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


# ---- what is looked for --------------------------------------------------------------------------------------------


def missing_tests(text: str) -> list[str]:
    """Named tests that do not exist."""
    named = NAMED_TEST.findall(text)
    return [f"{file}::{test}" for file, test in named if not _defines(ROOT / "tests" / file, test)]


def _defines(file: Path, test: str) -> bool:
    return file.exists() and re.search(rf"^\s*(?:async )?def {test}\(", text_of(file), re.MULTILINE) is not None


def broken_links(text: str, folder: Path) -> list[str]:
    """Relative links that lead nowhere, and anchors that no heading makes."""
    return [link for link in LINK.findall(text) if "://" not in link and not _leads_somewhere(link, folder)]


def _leads_somewhere(link: str, folder: Path) -> bool:
    file, _, anchor = link.partition("#")
    target = (folder / file).resolve() if file else None
    if target is None or not target.exists() or not target.is_relative_to(ROOT):
        return False
    return not anchor or anchor in {_slug(heading) for heading in HEADING.findall(text_of(target))}


def _slug(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def unknown_commands(text: str) -> list[str]:
    """`assay …` lines whose words are no command, or whose options it does not have."""
    return [problem for line in _code(text) for found in COMMAND.finditer(line) if (problem := _problem(line, found))]


def _code(text: str) -> Iterator[str]:
    """Every line of a code block and every inline code span."""
    inside = False
    for line in text.splitlines():
        if line.startswith("```"):
            inside = not inside
        elif inside:
            yield line.split("  #")[0]
        else:
            yield from re.findall(r"`([^`]+)`", line)


def _problem(line: str, found: re.Match[str]) -> str | None:
    command = get_command(app)
    for word in found[1].split():
        if not isinstance(command, TyperGroup):
            break
        if word not in command.commands:
            return f"assay{found[1]}: no command {word!r}"
        command = command.commands[word]
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    strangers = [option for option in OPTION.findall(line[found.end() :]) if option not in known | {"-h", "--help"}]
    return f"assay{found[1]}: no option {strangers[0]}" if strangers else None


def commands(group: TyperGroup, words: tuple[str, ...] = ()) -> Iterator[str]:
    """Every command there is, as typed after `assay`."""
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from commands(command, (*words, name))
        else:
            yield " ".join((*words, name))


def every_command() -> tuple[str, ...]:
    root = get_command(app)
    assert isinstance(root, TyperGroup)
    return tuple(commands(root))


def missing_files(text: str) -> list[str]:
    """Files of this repository, named in code spans, that are not there."""
    return [name for name in FILE.findall(text) if not (ROOT / name).exists()]


def machine_paths(text: str) -> list[str]:
    """Absolute paths of somebody's machine."""
    return [found.group() for found in MACHINE_PATH.finditer(text)]


# ---- what must hold ------------------------------------------------------------------------------------------------


def test_every_guarantee_names_tests_that_exist() -> None:
    text = text_of(ROOT / "docs" / "guarantees.md")
    assert missing_tests(text) == []
    rows = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith(("| promise", "|--"))]
    assert len(rows) >= 20
    assert [row for row in rows if not NAMED_TEST.search(row)] == []


@EVERY_TEXT
def test_every_relative_link_resolves(path: Path) -> None:
    assert broken_links(text_of(path), path.parent) == []


@EVERY_TEXT
def test_every_command_in_a_document_exists(path: Path) -> None:
    assert unknown_commands(text_of(path)) == []


def test_the_console_page_shows_every_command_and_every_exit_status() -> None:
    text = text_of(ROOT / "docs" / "console.md")
    assert [command for command in every_command() if f"assay {command}" not in text] == []
    assert [status for status in Exit if f"| {int(status)} |" not in text] == []


def test_the_operations_page_lists_exactly_the_settings_there_are() -> None:
    assert set(SETTING.findall(text_of(ROOT / "docs" / "operations.md"))) == set(known_variables())


@EVERY_TEXT
def test_every_setting_in_a_document_exists(path: Path) -> None:
    assert set(SETTING.findall(text_of(path))) - set(known_variables()) == set()


def test_the_operations_page_names_exactly_the_metrics_there_are() -> None:
    families = Metrics("any").registry.collect()
    own = {f.name + ("_total" if f.type == "counter" else "") for f in families if f.name.startswith("assay_")}
    assert set(METRIC.findall(text_of(ROOT / "docs" / "operations.md"))) == own


@EVERY_DOCUMENT
def test_no_document_names_a_machine(path: Path) -> None:
    assert machine_paths(text_of(path)) == []


def test_the_index_lists_every_document() -> None:
    index = text_of(ROOT / "docs" / "README.md")
    listed = {(ROOT / "docs" / link.partition("#")[0]).resolve() for link in LINK.findall(index)}
    expected = {path for path in TEXTS if path.is_relative_to(ROOT / "docs")} - {ROOT / "docs" / "README.md"}
    assert sorted(path.name for path in expected - listed) == []


def test_decision_records_are_numbered_without_repeat() -> None:
    numbers = [int(path.name[:4]) for path in (ROOT / "docs" / "adr").glob("*.md")]
    assert sorted(set(numbers)) == sorted(numbers)


@pytest.mark.parametrize("path", [path for path in TEXTS if not path.name.startswith("add-a-")], ids=lambda p: p.name)
def test_every_file_named_outside_the_guides_exists(path: Path) -> None:
    """A guide names files that its reader is about to write."""
    assert missing_files(text_of(path)) == []


# ---- that the checks can fail --------------------------------------------------------------------------------------


def test_a_test_that_does_not_exist_is_found() -> None:
    assert missing_tests("`pure/test_desk.py::test_no_such_thing`") == ["pure/test_desk.py::test_no_such_thing"]
    assert missing_tests("`pure/test_no_such_file.py::test_x`") == ["pure/test_no_such_file.py::test_x"]


@pytest.mark.parametrize("link", ["docs/nowhere.md", "README.md#no-such-heading", "../../../etc/passwd"])
def test_a_link_that_leads_nowhere_is_found(link: str) -> None:
    assert broken_links(f"[a]({link}) [b](README.md) [c](https://example.org)", ROOT) == [link]


@pytest.mark.parametrize(
    "line", ["`assay fly`", "`assay goal dance G`", "```\nassay up --wings 2\n```", "`assay goal watch G --for 3s`"]
)
def test_a_command_that_does_not_exist_is_found(line: str) -> None:
    assert len(unknown_commands(line)) == 1


def test_a_command_that_exists_is_no_problem() -> None:
    assert unknown_commands("```\nassay up --copies verifier=2    # two\nassay goal list -o json\n```") == []


def test_a_file_that_does_not_exist_is_found() -> None:
    assert missing_files("`schemas/goal.py` and `schemas/nothing.py`") == ["schemas/nothing.py"]


@pytest.mark.parametrize("folder", ["home/someone", "root", "tmp"])
def test_the_path_of_a_machine_is_found(folder: str) -> None:
    path = f"/{folder}/x"
    assert machine_paths(f"see {path} for more") == [path]


def test_the_name_of_a_machine_is_found() -> None:
    assert machine_paths("see build.internal for more") == ["build.internal"]


def test_a_path_of_every_machine_is_none() -> None:
    assert machine_paths("/usr/bin/gcc, ~/.local/share/assay, $ASSAY_DATA/run, docs/console.md") == []
