"""Sizes and spans of time as people write them."""


def size_text(size_bytes: float) -> str:
    """`1.5 GiB`, in the largest unit that leaves a whole number in front."""
    for unit, one in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size_bytes >= one:
            return f"{size_bytes / one:.3g} {unit}"
    return f"{size_bytes:.0f} bytes"


def span_text(seconds: float) -> str:
    """`45 s`, `10 min` or `1 h 30 min`, to the second below two minutes and to the minute above."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return " ".join(part for part in (f"{hours} h" if hours else "", f"{minutes} min" if minutes else "") if part)
