"""`flashferry completion bash|zsh|fish`: a script by which a shell completes what is typed, without asking us."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from flashferry.cli.terminal.output import print_for_programs


class Shell(Enum):
    """The shells that there is a script for."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(
    shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish", help="The shell that is to complete.")],
) -> None:
    """Print a script for a shell, to be sourced: it completes verbs, options, their values, files, and device names.

    It holds this release's words and starts no program of ours, so that an answer takes milliseconds; make it anew
    after an upgrade. Where each shell looks for it stands in docs/install.md.
    """
    from flashferry.cli.completion.bash import bash_script
    from flashferry.cli.completion.fish import fish_script
    from flashferry.cli.completion.zsh import zsh_script
    from flashferry.cli.tree import command_tree

    print_for_programs({Shell.BASH: bash_script, Shell.ZSH: zsh_script, Shell.FISH: fish_script}[shell](command_tree()))
