"""What is stored and shown: states, records, plans, policies, and the rules by which a broken run is mended.

Frozen values and pure rules. The names of fields and values in here are what journals, reports and programs read: they
are contracts, and stay.
"""
