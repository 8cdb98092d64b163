"""Run stagings at remote sites: an agent at each site stages its part of an approved plan.

An agent is this package with a state folder, a journal, a file server and secrets of its own. It connects to a broker
and receives signed orders, which contain only plan digests and device names. Needs the extra `sites`.
"""
