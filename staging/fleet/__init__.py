"""A run over many devices: who begins when, who waits for what, when it stops, and what is tried again."""
