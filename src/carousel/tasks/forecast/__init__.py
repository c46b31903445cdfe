"""The forecaster."""
