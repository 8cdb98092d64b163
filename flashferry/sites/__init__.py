"""Sites that work for themselves: an agent at each site carries out the part of an approved plan that is its own.

An agent is this same package with a state folder, a journal, a file server and secrets of its own. It dials out to a
broker and takes signed orders: digests of plans and names of devices, nothing else. Needs the extra `sites`.
"""
