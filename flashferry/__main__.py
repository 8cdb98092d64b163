"""`python -m flashferry`."""

from flashferry.cli import main

main()
