"""Device output to typed rows.

TextFSM templates and the one function that reads them, beside those of ntc-templates where they read well. Pure: text
in, rows out; what is not understood is never guessed.
"""
