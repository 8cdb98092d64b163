"""Kinds of SSH client, one data file each; what a file does not mark as assumed has a source in it."""
