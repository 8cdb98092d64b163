"""Devices of a site that serve each other in a run: who takes the image from where, and each side of such a copy."""
