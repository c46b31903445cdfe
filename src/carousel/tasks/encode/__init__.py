"""The sentence encoder."""
