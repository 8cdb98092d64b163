"""The serving processes together: which there are, who is asked what, and what one is told of the others.

A server has one process or a few. What is the server's as a whole stays with the parent: which tickets go where, that
a ticket used up in one of them is worthless in the others, and how many transfers share a site's cap.
"""
