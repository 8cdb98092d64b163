"""Maintenance of a state folder's databases: backup, integrity check, removal of old runs."""
