"""Clients: the parts of a session that all protocols share, and the limits before and at login.

Tickets and their state belong to the ticket service.
"""
