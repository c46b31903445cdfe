"""`python -m carousel …`: the command line."""

from .cli.main import main

main()
