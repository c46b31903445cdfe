"""What several tests share: independent references, small models and runs. `from helpers.references import build`."""
