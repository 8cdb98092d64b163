"""The audit looked at: whether its chain is whole, parts of it as CSV and JSON lines, and its daily head.

Entries are written by `flashferry.service.auditing`, in the transaction of what they tell of.
"""
