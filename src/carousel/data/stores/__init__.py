"""What was read, as integers: made once, memory-mapped."""
