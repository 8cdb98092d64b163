"""Schedules: a plan or a night at a time, or by a calendar, in a time zone, with a window and an owner.

Each due time is an occasion with one row, claimed by one statement: however many schedulers look, and whatever the
clock does, it is begun once or not at all. One that nobody was there to begin is told as missed, never begun late.
"""
