"""`flashferry man`: the manual page of the command line, for `man` and for who packages it."""

from __future__ import annotations

from importlib.metadata import version

from flashferry.cli.terminal.output import print_for_programs


def man() -> None:
    """Print the manual page, flashferry(1), in roff: 'flashferry man | man -l -' shows it."""
    from flashferry.cli.man.page import manual_page
    from flashferry.cli.tree import command_tree

    print_for_programs(manual_page(command_tree(), version=version("flashferry")))
