"""PTX text to tokens, each with its offset. One regular expression does the work: 5,000 lines are 50,000 tokens."""

import re
from bisect import bisect_right
from dataclasses import dataclass

from kernel_lab.ptx.syntax.tree import PtxSyntaxError

WORD = r"[A-Za-z_$%.][\w$.]*(?:::[\w$.]+)*"
NUMBER = (
    r"0[fF][0-9a-fA-F]{8}\b|0[dD][0-9a-fA-F]{16}\b|0[xX][0-9a-fA-F]+U?|0[bB][01]+U?"
    r"|\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\d+U?"
)
TOKEN = re.compile(rf'\s+|//[^\n]*|/\*.*?\*/|({WORD}|{NUMBER}|"[^"\n]*"|[{{}}()\[\],;:|!@<>=+\-*/&^~?]|.)', re.DOTALL)
LEGAL_FIRST = frozenset('_$%.{}()[],;:|!@<>=+-*/&^~?"')


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of one file, with an empty one at the end."""

    texts: list[str]
    offsets: list[int]
    newlines: list[int]

    def place(self, index: int) -> tuple[int, int]:
        """Line and column, from one, of a token."""
        offset = self.offsets[index]
        line = bisect_right(self.newlines, offset)
        return line, offset - self.newlines[line - 1] + 1


def tokenise(text: str) -> Tokens:
    """Every token of the text; raises PtxSyntaxError at the first character that no token can start with."""
    texts, offsets = [], []
    for found in TOKEN.finditer(text):
        if found.lastindex:
            texts.append(found[1])
            offsets.append(found.start())
    newlines = [0, *(found.end() for found in re.finditer("\n", text))]
    texts.append("")
    offsets.append(len(text))
    tokens = Tokens(texts, offsets, newlines)
    wrong = [token for token in set(texts) if token and not _starts_something(token)]
    if wrong:
        first = min(texts.index(token) for token in wrong)
        reason = "this string has no end" if texts[first] == '"' else f"{texts[first]!r} starts nothing in PTX"
        raise PtxSyntaxError(*tokens.place(first), reason)
    return tokens


def _starts_something(token: str) -> bool:
    return token != '"' and ((token[0].isalnum() and token.isascii()) or token[0] in LEGAL_FIRST)
