"""What a trained model does inside: the inputs of its layers, for labs, pages and notebooks alike.

`Model.trace` and `Model.intervene` show its gates and states.
"""

from .reading import LayerReading, read_layers

__all__ = ["LayerReading", "read_layers"]
