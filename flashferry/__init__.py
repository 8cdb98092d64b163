"""The command line: one file per verb, thin; everything it does is importable from `staging`."""
