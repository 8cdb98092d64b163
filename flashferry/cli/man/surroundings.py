"""What the program takes from around it and leaves there: variables of the environment, and files.

Variables that stand for an option are known from the options themselves; here is the rest. A test holds that no other
variable of ours is read anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from flashferry.cli.command_line import SERVICE_TOKEN_VARIABLE
from flashferry.cli.depot_sync import PASSWORD_VARIABLE as DEPOT_PASSWORD
from flashferry.cli.options.shared import ACTOR_VARIABLE, JOB_VARIABLE, OUTPUT_VARIABLE
from flashferry.cli.serve import PASSWORD_VARIABLE as SERVE_PASSWORD
from flashferry.cli.service.opening import PASSWORD_VARIABLE as USER_PASSWORD
from flashferry.cli.tree import Command
from flashferry.devices.credentials import ENABLE, PASSWORD, USERNAME
from flashferry.nightly.description.logins import CML_PREFIX

OTHERS = (
    (USERNAME, "User name for devices whose inventory names none."),
    (PASSWORD, "Its password."),
    (ENABLE, "Enable secret of devices whose inventory has none."),
    (f"{CML_PREFIX}USERNAME", "User of the controller of a night's lab."),
    (f"{CML_PREFIX}PASSWORD", "Its password."),
    (SERVE_PASSWORD, "Password of the fixed login of 'serve --user'."),
    (DEPOT_PASSWORD, "Password of our login at the source of 'depot sync' and 'depot probe', by --user."),
    (USER_PASSWORD, "Password for 'service init' and 'service user'; without it one is asked for, or made up."),
    (SERVICE_TOKEN_VARIABLE, "Token for the service that --service names; without it one is asked for."),
    ("FLASHFERRY_PLAIN", "Set: plain lines in place of the live view, also on a terminal."),
    (JOB_VARIABLE, "Set by the service: which of its jobs this process is."),
    (ACTOR_VARIABLE, "Set by the service: for whom it works, as the journal has it."),
    ("XDG_STATE_HOME", "The state folder is flashferry below it; ~/.local/state unless set."),
    ("COLUMNS", "Width of tables where the output is no terminal, 160 unless set."),
)
"""Variables that no option has, each with what it is for."""

_OTHERWISE = {OUTPUT_VARIABLE: "Where a command writes what it makes: a plan, a report, the results of a study."}
"""What variables of options are for whose meaning depends on the command."""

STATE = "~/.local/state/flashferry"
FILES = (
    (f"{STATE}/", "The state folder, private to its owner; --state-dir names another."),
    (f"{STATE}/journal.sqlite3", "The journal: each run, and what each device was before anything was changed."),
    (f"{STATE}/leases/", "The same once more of devices in hand, in case the journal is lost."),
    (f"{STATE}/known_hosts", "SSH host keys of devices, as OpenSSH keeps them."),
    (f"{STATE}/service.sqlite3, service.toml", "People, plans, schedules and audit of the service; its configuration."),
    (f"{STATE}/depot.sock, /run/flashferry/depot.sock", "Where runs look for a depot, in this order."),
    ("hosts.yaml, groups.yaml, defaults.yaml, images.yaml", "An inventory, in the folder that --inventory names."),
)
"""Files by which it goes, each with what it is; docs/service.md has all of the service's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A variable of the environment.

    Attributes:
        name: Its name.
        told: What it is for.
        option: The option that it stands for, or empty.
    """

    name: str
    told: str
    option: str = ""


def variables(tree: Command) -> tuple[Variable, ...]:
    """Return all variables: those that stand for an option, by their names, then the others."""
    of_options = {one.name: one for one in _of_options(tree)}
    return (
        *(of_options[name] for name in sorted(of_options)),
        *(Variable(name=name, told=told) for name, told in OTHERS),
    )


def _of_options(tree: Command) -> Iterator[Variable]:
    for command in reversed(tuple(tree)):
        for option in command.options:
            if option.variable:
                told = _OTHERWISE.get(option.variable, option.told)
                yield Variable(name=option.variable, told=told, option=option.names[-1])
