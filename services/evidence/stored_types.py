"""Which type strings of the log lead to a fact class, older versions included."""

from schemas.events import Fact
from schemas.upcasters import UPCASTERS


def stored_types(facts: tuple[type[Fact], ...]) -> tuple[str, ...]:
    """The type strings of `facts` and of every older version that is upcast to one of them."""
    wanted = {fact.TYPE for fact in facts}
    return tuple(sorted(wanted | {old for old in UPCASTERS if _newest(old) in wanted}))


def _newest(type_: str) -> str:
    while type_ in UPCASTERS:
        type_ = UPCASTERS[type_][0]
    return type_
