"""Pilot: all verbs tried on one spare router, and what that shows about the assumptions built into flashferry.

Each step is a function of `flashferry.api`. The rest is pure: read sessions from transcripts (`exchanges`), replace
names and addresses (`anonymise`), check assumptions (`facts`), write the page (`page`).
"""
