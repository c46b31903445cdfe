"""Sweeps: many trials of one task with different settings, by one process or by several at once (Optuna)."""
