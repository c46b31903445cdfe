"""Recursive networks over trees."""
