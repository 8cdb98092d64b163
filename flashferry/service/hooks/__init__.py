"""Hooks: receivers of notices, with format, delivery and retries."""
