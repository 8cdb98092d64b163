"""The lab that a night takes up: made of its description, or read from a topology of the user's own.

`made` is where to begin; `text` writes what a controller imports, `day0` the configuration by which SSH lets the night
in, `own` reads a file of the user's.
"""
