"""Tables of the staging service in `service.sqlite3`: people, plans, jobs, schedules, images, hooks, audit.

Functions take a connection in the caller's transaction, so that a change and its audit entry are stored together.
"""
