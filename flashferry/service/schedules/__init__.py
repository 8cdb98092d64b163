"""Schedules: a plan or a lab night, once or by a calendar, in a time zone, with a window and an owner.

Each due time has one row, claimed by one SQL statement, so that it starts at most once. A missed one is reported as
missed and not started late.
"""
