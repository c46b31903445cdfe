"""Batches in an order that a seed fixes; reading can stop and resume anywhere."""
