"""When two candidates are the same: one digest over normalised source, flags, threads and target."""

import hashlib
import json
import re
from collections.abc import Sequence

_LEXEME = re.compile(
    r"""(?P<comment>//(?:\\\n|[^\n])*|/\*.*?\*/)"""
    r"""|(?P<literal>/\*.*\Z|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?)""",
    re.DOTALL,
)
"""What is never closed is kept as it stands, up to the end of its line or text: so a source that no compiler takes is
never the same as one that it takes, and the time is linear in the text, whatever is in it."""
_BRACKETING = re.compile(r" ?([(){}\[\];,]) ?")
"""Blanks beside these never matter; beside operators they may (`a+ ++b` is not `a++ +b`)."""


def fingerprint(source: str, flags: Sequence[str], threads: int | None, target: str) -> str:
    """The same for sources that differ in comments and blanks only, for the same flags, threads and target."""
    identity = [normalised(source), list(flags), threads, target]
    return hashlib.sha256(json.dumps(identity).encode("utf-8", "backslashreplace")).hexdigest()


def normalised(source: str) -> str:
    """`source` without comments and without blanks that mean nothing. String literals are kept as they are."""
    literals: list[str] = []

    def without_comment(match: re.Match[str]) -> str:
        if match["comment"]:
            return " "
        literals.append(match["literal"])
        return f"\0{len(literals) - 1}\0"

    text = _LEXEME.sub(without_comment, source.replace("\0", ""))
    blank_free = "\n".join(_paragraphs(text))
    return re.sub(r"\0(\d+)\0", lambda match: literals[int(match[1])], blank_free)


def _paragraphs(text: str) -> list[str]:
    """Directives a line each; the code between them as one line."""
    paragraphs: list[str] = []
    code: list[str] = []
    for line in re.sub(r"\\\n", " ", text).splitlines():
        if line.lstrip().startswith("#"):
            paragraphs += [_squeezed(" ".join(code)), " ".join(line.split())]
            code = []
        else:
            code.append(line)
    paragraphs.append(_squeezed(" ".join(code)))
    return [paragraph for paragraph in paragraphs if paragraph]


def _squeezed(code: str) -> str:
    return _BRACKETING.sub(r"\1", " ".join(code.split()))
