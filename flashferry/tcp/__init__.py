"""Pure facts and arithmetic about TCP: no sockets, no clock.

The kernel's account of a connection, the audit of a SYN, models of what a flow can reach, the pace of a copy over a
link of unknown rate, and the verdict on what limited a transfer, with its evidence in words.
"""
