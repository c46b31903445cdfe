"""What several tasks share: settings, the choice of a cell, contextual word vectors, text generation."""
