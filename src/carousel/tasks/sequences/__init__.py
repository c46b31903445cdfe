"""The task `sequences`: labels for sequences of numbers."""
