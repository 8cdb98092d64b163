"""Reports of a run: one typed model, made from the journal, and its output formats.

Text, HTML, JSON, CSV and JUnit use the same values; a value that was not measured is shown as missing, never as 0.
"""
