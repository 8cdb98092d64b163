"""The command line: one file per verb, thin: it parses, calls `flashferry.api` and shows what came of it."""
