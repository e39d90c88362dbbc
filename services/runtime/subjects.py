"""NATS subject filters: `*` is one token, a final `>` is one or more."""


def matches(pattern: str, subject: str) -> bool:
    """`subject` is among those that `pattern` names."""
    wanted, tokens = pattern.split("."), subject.split(".")
    if wanted[-1] == ">":
        return len(tokens) >= len(wanted) and _same(wanted[:-1], tokens)
    return len(tokens) == len(wanted) and _same(wanted, tokens)


def _same(wanted: list[str], tokens: list[str]) -> bool:
    return all(want in ("*", token) for want, token in zip(wanted, tokens, strict=False))
