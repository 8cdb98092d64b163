"""One run over a fleet: journal, recovery, events and records."""
