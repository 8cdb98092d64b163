"""Users of the service: identification, grants, sessions and tokens."""
