"""The tagger."""
