"""`python -m flashferry`."""

from flashferry.cli.main import main

main()
