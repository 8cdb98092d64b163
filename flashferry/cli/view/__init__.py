"""Output for people: tables, the live view, formatted figures."""
