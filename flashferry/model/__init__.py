"""Values that are stored and shown (states, records, plans, settings), and pure rules about them.

Names of fields and enumeration values are what journals, reports and scripts read, and must not change.
"""
