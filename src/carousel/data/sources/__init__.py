"""Readers of files, and of data in memory."""
