"""The client of a remote service. Imports nothing of the service itself, so that the command line starts without it.

Answers are untrusted: limited in size, checked in form; a wrong one is reported in one sentence.
"""
