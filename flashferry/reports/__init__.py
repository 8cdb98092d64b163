"""What a run came to, as a report: one typed model, derived from the journal alone, and its forms.

Text, HTML, JSON, CSV and JUnit say the same, for they read the same values; what was not measured is said to be
missing, never nought.
"""
