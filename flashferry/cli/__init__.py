"""The command line: one file per verb, thin: it parses, calls `flashferry.api` and shows what came of it.

Options that several verbs share are in `options`, tables and the live view in `view`, what a terminal does to a program
in `terminal`. Options, exit codes and output are contracts, held by `tests/contract`.
"""
