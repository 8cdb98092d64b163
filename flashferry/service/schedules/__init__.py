"""Schedules: a plan or a night, once or by a calendar, in a time zone, with a window and an owner.

Each due time has one row, claimed by one statement: it is started once or not at all. One that was missed is reported
as missed, and not started late.
"""
