"""Client of a remote service. Imports nothing of the service itself, so that the command line starts quickly.

Answers are untrusted: limited in size and checked; an invalid one is reported in one sentence.
"""
