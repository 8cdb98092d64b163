"""The staging service of a team: plans, approvals, runs, schedules, images, users, audit. Extra `service`.

It owns no run: each is a process of its own that outlives it, found again by journal and event file. What the service
owns
is in `service.sqlite3`. Device credentials never come here.
"""
