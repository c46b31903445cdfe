"""The classifier."""
