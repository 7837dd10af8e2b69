"""Checkpoints: what one is in each format, whether it is whole, what is kept of them. docs/checkpoints.md."""
