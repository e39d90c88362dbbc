"""`python3 infra/compose/fresh_env.py`: `.env` holds `.env.example` with fresh secrets. Needs nothing but Python."""

import os
import re
import secrets
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
UNSET = re.compile(r"=change-me$", re.MULTILINE)
SECRET_BYTES = 24


def filled(example: str) -> str:
    """`example` with another random secret in each place that says `change-me`."""
    return UNSET.sub(lambda _: f"={secrets.token_urlsafe(SECRET_BYTES)}", example)


def main(folder: Path = ROOT) -> int:
    """0 when `.env` was written, readable by its owner only; 2 when there is one already, which stays as it is."""
    target = folder / ".env"
    try:
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        print(f"{target} exists and is left as it is; its secrets belong to the volumes", file=sys.stderr)
        return 2
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(filled((folder / ".env.example").read_text(encoding="utf-8")))
    print(f"{target} holds fresh secrets", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
