"""The operators: one file each, with its native call, what torch does in its place, and its derivative."""
