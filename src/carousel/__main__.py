"""`python -m carousel …`, and the command `carousel`."""

import sys


def main() -> None:
    """Run the command line; Ctrl-C is one line also while it is imported."""
    try:
        from .cli.main import main as run
    except KeyboardInterrupt:
        print("error: interrupted", file=sys.stderr)
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
