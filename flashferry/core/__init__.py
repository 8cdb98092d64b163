"""Foundations of all packages: errors, redaction of secrets, files, JSON and units.

Every package may import this one, and it imports none. Each text that leaves the process, as a line, a file or a page,
passes `flashferry.core.redaction`, which masks secrets by their value.
"""
