"""`flashferry lab sites-demo`: sites that work for themselves, in small. Depots, agents, neighbours, and a line cut."""
