"""Command line: one thin module per verb, which parses options, calls `flashferry.api` and prints the result.

Options shared by several verbs are in `options`, tables and the live view in `view`, terminal handling in `terminal`.
"""
