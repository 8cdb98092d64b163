"""The staging service of a team: plans, approvals, runs, schedules, images, users, audit. Needs the extra `service`.

Each run is a process of its own that outlives the service; the service finds it by its journal and event file. The
service's own data is in `service.sqlite3`. Device credentials are never stored here.
"""
