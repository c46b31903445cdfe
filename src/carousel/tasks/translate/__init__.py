"""The translator."""
