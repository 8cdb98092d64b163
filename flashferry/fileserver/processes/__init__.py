"""The serving processes and pushes of a server, and what they share.

A server has one process or a few. What is the server's as a whole stays with the parent: which tickets go where, that
a ticket used up in one of them is worthless in the others, and how many transfers share a site's cap.
"""
