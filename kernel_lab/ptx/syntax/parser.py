"""PTX text to a Module. Hand-written: PTX is one statement after another, and errors must say where."""

from dataclasses import replace

from kernel_lab.ptx.syntax.constants import number, real
from kernel_lab.ptx.syntax.declarations import Declarations
from kernel_lab.ptx.syntax.scopes import Scopes, is_special
from kernel_lab.ptx.syntax.tree import (
    Address,
    Function,
    Instruction,
    Integer,
    Label,
    Location,
    Module,
    Name,
    Negated,
    Operand,
    Pair,
    Space,
    Variable,
    Vector,
)

SPACES = {".global": Space.GLOBAL, ".shared": Space.SHARED, ".const": Space.CONST, ".local": Space.LOCAL}
LINKING = frozenset({".visible", ".extern", ".weak", ".common", ".internal"})
IGNORED_STATEMENTS = frozenset({".pragma", ".alias", ".callprototype", ".calltargets"})
FUNCTION_DIRECTIVES = frozenset({
    ".maxnreg", ".maxntid", ".reqntid", ".minnctapersm", ".maxnctapersm", ".noreturn", ".pragma", ".explicitcluster",
    ".reqnctapercluster", ".maxclusterrank", ".blocksareclusters", ".abi_preserve", ".abi_preserve_control",
})  # fmt: skip


def parse(text: str) -> Module:
    """The module that the text says; raises PtxSyntaxError with line and column where it says none."""
    return Parser(text).module()


class Parser(Declarations):
    """One pass over the tokens of one file."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.files: dict[int, str] = {}
        self.functions: dict[str, Function] = {}
        self.variables: list[Variable] = []
        self.scopes = Scopes()
        self.source: Location | None = None

    def module(self) -> Module:
        """The whole file: header, then declarations and functions in any order."""
        major, minor = self._version()
        target = self._target()
        address_size = 32
        while token := self.text():
            if token == ".address_size":
                self.take()
                address_size = int(number(self.take()) or 0)
            else:
                self._top_level(token)
        lines = len(self.tokens.newlines)
        return Module((major, minor), target, address_size, self.functions, tuple(self.variables), self.files, lines)

    def _version(self) -> tuple[int, int]:
        self.expect(".version")
        major, dot, minor = self.text().partition(".")
        if not (dot and major.isdigit() and minor.isdigit()):
            self.fail("expected a version such as 8.0")
        self.take()
        return int(major), int(minor)

    def _target(self) -> str:
        self.expect(".target")
        target = self.take()
        while self.accept(","):
            self.take()
        return target

    def _top_level(self, token: str) -> None:
        if token in (".file", ".loc"):
            self._file() if token == ".file" else self._loc()
        elif token == ".section":
            self._skip_section()
        elif token in IGNORED_STATEMENTS:
            self.skip_statement()
        else:
            self._declaration()

    def _declaration(self) -> None:
        linking = set()
        while self.text() in LINKING:
            linking.add(self.take())
        token = self.text()
        if token in (".entry", ".func"):
            self._function(is_entry=token == ".entry")
        elif token in SPACES:
            for variable in self.variables_of(SPACES[token], is_extern=".extern" in linking):
                self.variables.append(variable)
                self.scopes.declare_symbol(variable.name)
        else:
            self.fail(f"{token!r} begins no declaration")

    def _function(self, *, is_entry: bool) -> None:
        line, _ = self.place()
        self.take()
        returned = self.parameters() if self.text() == "(" else ()
        name = self.take()
        parameters = self.parameters() if self.text() == "(" else ()
        directives = self._directives()
        self.scopes.declare_symbol(name)
        if self.accept(";"):
            return
        self.scopes.enter_function(parameter.name for parameter in (*returned, *parameters))
        body = Body(self)
        body.block()
        self.scopes.leave_function()
        self.functions[name] = Function(
            name, is_entry, line, parameters, dict(self.scopes.registers), tuple(body.variables),
            tuple(body.statements), directives, body.branch_targets,
        )  # fmt: skip

    def _directives(self) -> dict[str, tuple[int, ...]]:
        found: dict[str, tuple[int, ...]] = {}
        while self.text() in FUNCTION_DIRECTIVES:
            directive, values = self.take(), []
            while self.text()[:1].isdigit() or self.text()[:1] == '"':
                values.append(number(self.take()) or 0)
                self.accept(",")
            self.accept(";")
            found[directive[1:]] = tuple(int(value) for value in values)
        return found

    def _file(self) -> None:
        self.take()
        index = self.integer()
        self.files[index] = self.take().strip('"')
        while self.accept(","):
            self.take()

    def _loc(self) -> None:
        self.take()
        file, line, _ = self.integer(), self.integer(), self.integer()
        if line:
            self.source = Location(file, line)
        if self.text() == "," and self.text(1) == "function_name":
            self.skip(3)
            if self.accept("+"):
                self.take()
            self.expect(",")
            self.skip(4)  # inlined_at file line column

    def _skip_section(self) -> None:
        while self.text() not in ("{", ""):
            self.take()
        depth = 0
        while token := self.text():
            depth += (token == "{") - (token == "}")
            self.take()
            if not depth:
                return
        self.fail("this section has no end")


class Body:
    """The statements of one function; nested scopes are flattened, with registers renamed."""

    def __init__(self, parser: Parser) -> None:
        self.parser = parser
        self.statements: list[Instruction | Label] = []
        self.variables: list[Variable] = []
        self.branch_targets: dict[str, tuple[str, ...]] = {}

    def block(self) -> None:
        """From { to its }."""
        parser, scopes = self.parser, self.parser.scopes
        start = parser.place()
        parser.expect("{")
        scopes.enter(self._labels_ahead())
        while (token := parser.text()) != "}":
            if not token:
                parser.fail(f"the block opened at {start[0]}:{start[1]} has no end")
            self._statement(token)
        parser.take()
        scopes.leave()

    def _labels_ahead(self) -> list[str]:
        """The labels that this block declares: branches may run ahead of them."""
        texts, at, depth, labels = self.parser.tokens.texts, self.parser.at, 1, []
        while depth and texts[at]:
            token = texts[at]
            if token == ":" and depth == 1:
                labels.append(texts[at - 1])
            depth += (token == "{") - (token == "}")
            at += 1
        return labels

    def _statement(self, token: str) -> None:
        parser = self.parser
        if token[0] == ".":
            self._directive(token)
        elif token == "{":
            self.block()
        elif parser.text(1) == ":":
            self._label()
        elif token == ";":
            parser.take()
        else:
            self.statements.append(self._instruction(token))

    def _label(self) -> None:
        parser = self.parser
        line, _ = parser.place()
        name = parser.scopes.label(parser.take())
        parser.take()
        if parser.accept(".branchtargets"):
            targets = [parser.scopes.label(parser.take())]
            while parser.accept(","):
                targets.append(parser.scopes.label(parser.take()))
            parser.expect(";")
            self.branch_targets[name] = tuple(targets)
        elif parser.text() == ".callprototype":
            parser.skip_statement()
        else:
            self.statements.append(Label(name, line))

    def _directive(self, token: str) -> None:
        parser = self.parser
        if token == ".reg":
            parser.take()
            type_, names = parser.registers()
            for name in names:
                parser.scopes.declare_register(name, type_)
        elif token == ".loc":
            parser._loc()  # noqa: SLF001  (the body is the parser's other half)
        elif token == ".file":
            parser._file()  # noqa: SLF001
        elif token in SPACES or token == ".param":
            for variable in parser.variables_of(SPACES.get(token, Space.PARAM), is_extern=False):
                unique = parser.scopes.declare_local_symbol(variable.name)
                self.variables.append(replace(variable, name=unique))
        elif token in IGNORED_STATEMENTS:
            parser.skip_statement()
        else:
            parser.fail(f"{token} is no directive that may stand here")

    def _instruction(self, token: str) -> Instruction:
        parser = self.parser
        line, column = parser.place()
        guard, negated = None, False
        if token == "@":
            parser.take()
            negated = parser.accept("!")
            guard = self._name()
            token = parser.text()
        if not token[:1].isalpha():
            parser.fail(f"expected an instruction, found {token!r}")
        parser.take()
        opcode, *modifiers = token.split(".")
        operands: tuple[Operand, ...] = ()
        if parser.text() != ";":
            operands = self._operands()
        parser.expect(";")
        return Instruction(line, column, opcode, tuple(modifiers), operands, guard, negated, parser.source)

    def _operands(self) -> tuple[Operand, ...]:
        found = [self._operand()]
        while self.parser.accept(","):
            found.append(self._operand())
        return tuple(found)

    def _operand(self) -> Operand:
        parser = self.parser
        token = parser.text()
        first = token[:1]
        if first == "%" or first.isalpha() or first in "_$":
            name = self._name()
            if parser.text() == "|":
                parser.take()
                return Pair(name, self._operand())
            if parser.text() in ("+", "-") and parser.text(1)[:1].isdigit():
                sign = -1 if parser.take() == "-" else 1
                return Address(name, sign * parser.integer())
            return name
        if first == "[":
            return self._address()
        if first == "{" or first == "(":
            return self._vector("}" if first == "{" else ")")
        if first == "!":
            parser.take()
            return Negated(self._name())
        return self._constant()

    def _constant(self) -> Operand:
        parser = self.parser
        negative = parser.accept("-")
        inverted = not negative and parser.accept("~")
        token = parser.text()
        whole = number(token)
        if whole is not None:
            parser.take()
            return Integer(-whole if negative else ~whole if inverted else whole)
        fraction = real(token)
        if fraction is None:
            parser.fail(f"expected an operand, found {token!r}")
        parser.take()
        return replace(fraction, value=-fraction.value) if negative else fraction

    def _vector(self, closing: str) -> Vector:
        parser = self.parser
        parser.take()
        items: list[Operand] = []
        while not parser.accept(closing):
            items.append(self._operand())
            if not parser.accept(",") and parser.text() != closing:
                parser.fail(f"expected , or {closing} in a vector, found {parser.text()!r}")
        return Vector(tuple(items))

    def _address(self) -> Address:
        parser = self.parser
        parser.take()
        first, offset = self._operand(), 0
        base: Operand = first
        if isinstance(first, Address):
            base, offset = first.base, first.offset
        elif parser.text() in ("+", "-"):
            sign = -1 if parser.take() == "-" else 1
            if parser.accept("-"):  # compilers write [%rd1+-8]
                sign = -sign
            offset = sign * parser.integer()
        more: list[Operand] = []
        while parser.accept(","):
            more.append(self._operand())
        if not isinstance(base, Name | Integer):
            parser.fail("an address is a register, a variable or a number, plus a constant")
        parser.expect("]")
        return Address(base, offset, tuple(more))

    def _name(self) -> Name:
        parser = self.parser
        found = parser.scopes.find(parser.text())
        if found is None:
            token = parser.text()
            if is_special(token):
                register, _, component = token.partition(".")
                found = Name(register, component or None)
            else:
                parser.fail(f"{token!r} is not declared")
        parser.take()
        return found
