"""Measurements that a command repeats: `carousel bench`."""
