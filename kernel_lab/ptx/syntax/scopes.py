"""Which name means what where: inline assembly opens scopes that repeat register names and labels."""

from collections.abc import Iterable, Iterator

from kernel_lab.ptx.syntax.tree import Name

VECTOR_SPECIALS = frozenset({
    "%tid", "%ntid", "%ctaid", "%nctaid", "%clusterid", "%nclusterid", "%cluster_ctaid", "%cluster_nctaid",
})  # fmt: skip
SPECIALS = VECTOR_SPECIALS | {
    "%laneid", "%warpid", "%nwarpid", "%smid", "%nsmid", "%gridid", "%clock", "%clock_hi", "%clock64", "%globaltimer",
    "%globaltimer_lo", "%globaltimer_hi", "%lanemask_eq", "%lanemask_le", "%lanemask_lt", "%lanemask_ge",
    "%lanemask_gt", "%dynamic_smem_size", "%total_smem_size", "%aggr_smem_size", "%cluster_ctarank",
    "%cluster_nctarank", "%is_explicit_cluster", "%current_graph_exec", "WARP_SZ", "_",
}  # fmt: skip


def is_special(token: str) -> bool:
    """Whether the token names a special register (PTX ISA manual, chapter 10), WARP_SZ, or the sink `_`."""
    register, _, component = token.partition(".")
    return register in SPECIALS and (not component or (register in VECTOR_SPECIALS and component in "xyzw"))


class Scopes:
    """The open scopes, innermost last. Names of an inner scope get a number, so a function has flat names."""

    def __init__(self) -> None:
        self.symbols: dict[str, Name] = {}
        self.registers: dict[str, str] = {}
        self._stack: list[dict[str, Name]] = []
        self._labels: list[dict[str, str]] = []
        self._suffixes: list[str] = []
        self._numbers: Iterator[int] = iter(())

    def declare_symbol(self, name: str) -> None:
        """A variable or function of the module."""
        self.symbols[name] = Name(name)

    def enter_function(self, parameters: Iterable[str]) -> None:
        """Its parameters are known from here on."""
        self.registers = {}
        self._numbers = iter(range(1, 1 << 30))
        self._stack = [{name: Name(name) for name in parameters}]
        self._labels = []

    def leave_function(self) -> None:
        """Only the module's names are known."""
        self._stack = []

    def enter(self, labels: Iterable[str]) -> None:
        """A block that declares these labels somewhere."""
        suffix = f"@{next(self._numbers)}" if self._labels else ""
        self._stack.append({})
        self._labels.append({label: label + suffix for label in labels})
        self._suffixes.append(suffix)

    def leave(self) -> None:
        """Back to the enclosing block."""
        self._stack.pop()
        self._labels.pop()
        self._suffixes.pop()

    def declare_register(self, name: str, type_: str) -> None:
        """A register of the innermost block."""
        unique = name + self._suffixes[-1]
        self._stack[-1][name] = Name(unique)
        self.registers[unique] = type_

    def declare_local_symbol(self, name: str) -> str:
        """A variable of the innermost block; the unique name."""
        unique = name + self._suffixes[-1]
        self._stack[-1][name] = Name(unique)
        return unique

    def label(self, name: str) -> str:
        """The unique name of a label, or the name itself where no open block declares it."""
        return next((labels[name] for labels in reversed(self._labels) if name in labels), name)

    def find(self, name: str) -> Name | None:
        """What a name in an operand means: the innermost declaration wins."""
        for scope in reversed(self._stack):
            if (found := scope.get(name)) is not None:
                return found
        if (unique := self.label(name)) != name or any(name in labels for labels in self._labels):
            return Name(unique)
        return self.symbols.get(name)
