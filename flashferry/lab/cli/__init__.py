"""`flashferry lab ...`: the verbs of its command line, which `flashferry.cli` registers by name."""
