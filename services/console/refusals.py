"""What the desk refused, shown to the person who asked."""

from collections.abc import Sequence
from typing import NoReturn

from schemas.requests import Problem
from services.console.exits import Exit, exit_with
from services.console.output import Column, Format, emit_records, say

PROBLEM_COLUMNS = (Column("path", "where"), Column("message", "what"), Column("hint", "hint"))


def end_refused(what: str, problems: Sequence[Problem], output: Format) -> NoReturn:
    """Every problem is on stderr, and as data on stdout where data were asked for; the command ends with 1."""
    if output is not Format.TEXT:
        emit_records([problem.model_dump(mode="json") for problem in problems], output, PROBLEM_COLUMNS, "")
    say(what)
    for problem in problems:
        say(f"  {problem.path}: {problem.message}" + (f" ({problem.hint})" if problem.hint else ""))
    exit_with(Exit.FAILED)
