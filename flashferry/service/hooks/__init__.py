"""Hooks: where notices are sent, in which form, and how delivery is retried."""
