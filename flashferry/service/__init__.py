"""The staging service of a team: who may stage what, who approved which plan, what is going on, what happened.

It owns no run: each is a process of its own that outlives it, found again by journal and event file, and steered by
the journal. What the service owns is in `service.sqlite3`: people, plans and approvals, schedules, jobs, images, and
the audit. Credentials of devices never come here. Needs the extra `service`.
"""
