"""What several tasks share: settings, characters, word vectors in context, generation."""
