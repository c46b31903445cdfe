"""Recurrent networks for PyTorch at fused speed."""
