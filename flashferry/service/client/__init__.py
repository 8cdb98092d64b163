"""The client of a remote service: its API as values of ours, over connections that break and services that restart.

Imports nothing of the service itself, so that a command line that only asks starts without what serves. What comes from
there is foreign: it is bounded in size, checked in form, and ends in one sentence where it is not as agreed.
"""
