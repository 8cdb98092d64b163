"""Keep a folder of images in which an image gets its name only once its whole content is verified.

An incomplete image has a hidden name and a state file. A verified image has a proof beside it, which is valid for that
state of the file only. Stagings rely on the proof, never on the name.
"""
