"""The `assay` program: as little as possible stands before Ctrl-C is understood (the rest takes a second to import)."""

import sys

INTERRUPTED = 130


def main() -> None:
    """Runs the command line; Ctrl-C at any moment ends it in one line."""
    try:
        from services.console.main import run

        run()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
