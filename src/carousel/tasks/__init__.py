"""Tasks by name: those of this package, those of installed packages, and a user's own."""

from .registry import find, find_for, names, register

__all__ = ["find", "find_for", "names", "register"]
