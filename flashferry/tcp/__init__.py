"""Computations about TCP connections: no sockets, no clock.

Parsers of TCP_INFO and of a SYN, models of the rate a flow can reach, the pace of a copy over a link of unknown rate,
and the verdict on what limited a transfer, with its evidence in words.
"""
