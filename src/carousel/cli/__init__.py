"""The `carousel` command: it reads options, calls the library and prints. No logic lives here."""
