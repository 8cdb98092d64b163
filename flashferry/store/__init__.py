"""Every line of SQL: the journal with its leases, runs, transfers and history, and one reader for them.

The lines of a device are on disk before the first of ours is sent to it. A run owns its rows; others read them,
and control a run by requests that it polls.
"""
