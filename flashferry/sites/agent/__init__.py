"""Receive orders at a site, carry them out in processes of their own, and report the results."""
