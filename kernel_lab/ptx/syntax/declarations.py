"""The parser's lower half: walking tokens, and declarations of registers, variables and parameters."""

from typing import NoReturn

from kernel_lab.ptx.syntax.constants import number, real
from kernel_lab.ptx.syntax.tokens import tokenise
from kernel_lab.ptx.syntax.tree import Name, PtxSyntaxError, Space, Variable

TYPE_BYTES = {
    "b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2, "b32": 4, "u32": 4, "s32": 4,
    "f32": 4, "f16x2": 4, "bf16x2": 4, "tf32": 4, "e4m3": 1, "e5m2": 1, "b64": 8, "u64": 8, "s64": 8, "f64": 8,
    "b128": 16, "pred": 1, "f32x2": 8, "texref": 8, "samplerref": 8, "surfref": 8,
}  # fmt: skip
VECTORS = {".v2": 2, ".v4": 4, ".v8": 8}


class Declarations:
    """A cursor over the tokens of one file, and what it reads of declarations."""

    def __init__(self, text: str) -> None:
        self.tokens = tokenise(text)
        self.at = 0

    def text(self, ahead: int = 0) -> str:
        """The token here, or some tokens ahead; empty past the end."""
        index = self.at + ahead
        return self.tokens.texts[index] if index < len(self.tokens.texts) else ""

    def take(self) -> str:
        """The token here; the cursor stands behind it."""
        token = self.tokens.texts[self.at]
        if not token:
            self.fail("the text ends here")
        self.at += 1
        return token

    def skip(self, count: int) -> None:
        """Past so many tokens."""
        for _ in range(count):
            self.take()

    def accept(self, token: str) -> bool:
        """Past this token, if it is the one here."""
        if self.tokens.texts[self.at] != token:
            return False
        self.at += 1
        return True

    def expect(self, token: str) -> None:
        """Past this token, or a syntax error."""
        if not self.accept(token):
            self.fail(
                f"expected {token!r}, found {self.text()!r}" if self.text() else f"expected {token!r} before the end"
            )

    def place(self) -> tuple[int, int]:
        """Line and column of the token here."""
        return self.tokens.place(self.at)

    def fail(self, message: str) -> NoReturn:
        """A syntax error at the token here."""
        raise PtxSyntaxError(*self.place(), message)

    def integer(self) -> int:
        """An integer constant, perhaps with a sign."""
        sign = -1 if self.accept("-") else 1
        value = number(self.text())
        if value is None:
            self.fail(f"expected an integer, found {self.text()!r}")
        self.take()
        return sign * value

    def skip_statement(self) -> None:
        """Past the next semicolon."""
        while self.take() != ";":
            pass

    def type_(self) -> tuple[str, int]:
        """A fundamental type and its size."""
        name = self.text()[1:]
        if self.text()[:1] != "." or name not in TYPE_BYTES:
            self.fail(f"expected a type, found {self.text()!r}")
        self.take()
        return name, TYPE_BYTES[name]

    def registers(self) -> tuple[str, list[str]]:
        """`.b32 %r<96>, %x;` behind .reg: the type and every name."""
        while self.text() in VECTORS:
            self.fail("vector registers are not supported; declare scalars")
        type_, _ = self.type_()
        names: list[str] = []
        while True:
            name = self.take()
            if self.accept("<"):
                names += [f"{name}{index}" for index in range(self.integer())]
                self.expect(">")
            else:
                names.append(name)
            if not self.accept(","):
                break
        self.expect(";")
        return type_, names

    def parameters(self) -> tuple[Variable, ...]:
        """(.param …, .param …)"""
        self.expect("(")
        found: list[Variable] = []
        while not self.accept(")"):
            if self.text() == ".reg":
                self.take()
            else:
                self.expect(".param")
            found.append(self._parameter())
            self.accept(",")
        return tuple(found)

    def _parameter(self) -> Variable:
        line, _ = self.place()
        align, is_pointer, type_, size = 0, False, "", 0
        while self.text()[:1] == ".":
            if self.accept(".ptr"):
                is_pointer = True
            elif self.accept(".align"):
                align = self.integer()
            elif self.text() in (".global", ".shared", ".const", ".local"):
                self.take()
            else:
                type_, size = self.type_()
        name = self.take()
        is_array = self.text() == "["
        count = self._dimensions()
        alignment = size if is_pointer else align or size
        return Variable(name, Space.PARAM, type_, size, count, alignment, line, (), is_pointer, is_array)

    def _dimensions(self) -> int:
        """The element count of `[2][3]`; 1 without brackets, 0 for `[]`."""
        count = 1
        while self.accept("["):
            count *= 0 if self.text() == "]" else self.integer()
            self.expect("]")
        return count

    def variables_of(self, space: Space, *, is_extern: bool) -> list[Variable]:
        """`.shared .align 16 .b8 name[128], other;` with initial values."""
        self.take()
        align, lanes = 0, 1
        if self.accept("::cta"):
            pass
        while self.text() in (".align", ".attribute", *VECTORS):
            token = self.take()
            if token == ".align":
                align = self.integer()
            elif token == ".attribute":
                self._skip_parentheses()
            else:
                lanes = VECTORS[token]
        type_, size = self.type_()
        found = []
        while True:
            found.append(self._variable(space, type_, size * lanes, align, is_extern=is_extern))
            if not self.accept(","):
                break
        self.expect(";")
        return found

    def _variable(self, space: Space, type_: str, size: int, align: int, *, is_extern: bool) -> Variable:
        line, _ = self.place()
        name = self.take()
        is_array = self.text() == "["
        if self.text() == "<":
            self.fail("parameterised variable names are not supported")
        count = self._dimensions()
        initial = self._initial() if self.accept("=") else ()
        if count == 0 and initial:
            count = len(initial)
        if is_extern and not is_array:
            count = 0
        return Variable(name, space, type_, size, count, align or size, line, initial, is_array=is_array)

    def _initial(self) -> tuple[int | float | Name, ...]:
        if self.accept("{"):
            values: list[int | float | Name] = []
            while not self.accept("}"):
                values += self._initial()
                self.accept(",")
            return tuple(values)
        negative = self.accept("-")
        token = self.take()
        whole, fraction = number(token), real(token)
        if whole is not None:
            return (-whole if negative else whole,)
        if fraction is not None:
            return (-fraction.value if negative else fraction.value,)
        if self.accept("("):  # generic(name)
            token = self.take()
            self.expect(")")
        return (Name(token),)

    def _skip_parentheses(self) -> None:
        self.expect("(")
        while self.take() != ")":
            pass
