"""The bidirectional language model."""
