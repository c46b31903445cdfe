"""Models: an embedder, an encoder of any cell, a head or a decoder; one short file for each task."""
