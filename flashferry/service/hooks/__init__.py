"""Hooks: where notices are sent, in which form, and how a notice gets there even where a receiver is away.

`managing` is what an administrator does with them, `bodies` what is sent, `sending` how, `delivery` the background
thread that empties the outbox and follows the audit.
"""
