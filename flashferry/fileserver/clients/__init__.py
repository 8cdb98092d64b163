"""Who comes: what every protocol's client does alike, and the bounds that hold before and at its login.

Whose ticket it is, and what becomes of it, is the ticket service's.
"""
