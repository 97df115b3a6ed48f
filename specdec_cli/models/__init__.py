"""Checkpoints, their caches, and a clip's session on one of them."""
