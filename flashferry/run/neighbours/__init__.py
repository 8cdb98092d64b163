"""Copies between devices of a site: which device takes the image from which, and each side of such a copy."""
