"""`python -m carousel …`, and the command `carousel`."""

import atexit
import gc
import sys


def main() -> None:
    """Run the command line; Ctrl-C is one line also while it is imported."""
    try:
        from .cli.main import main as run
    except KeyboardInterrupt:
        print("error: interrupted", file=sys.stderr)
        sys.exit(130)
    atexit.register(gc.freeze)  # the process ends: no search for cyclic garbage among all that torch has imported
    run()


if __name__ == "__main__":
    main()
