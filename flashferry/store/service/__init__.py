"""What the staging service keeps, `service.sqlite3` beside the journal: people, plans, jobs, schedules, images, audit.

Functions here take a connection, within the transaction of the caller: a change and its entry in the audit are one.
"""
