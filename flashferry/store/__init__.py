"""Every line of SQL: the journal with its leases, runs, transfers and history, and one reader for them.

The lines of a device are on disk before the first of ours is sent to it. A run owns its rows; whoever else wants to
know reads, and whoever wants to steer leaves a request that the run looks for.
"""
