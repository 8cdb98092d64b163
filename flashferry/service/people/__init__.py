"""Users of the service: who is calling, and how users, grants, sessions and tokens come and go."""
