"""`flashferry service user ...`: manage the service's users from its host. Every change is in the audit log."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flashferry.cli.command_line import App
from flashferry.cli.options.shared import JsonOption, StateOption
from flashferry.cli.service.serve import ConfigOption, given_password, opened
from flashferry.cli.terminal.output import echo, finish
from flashferry.core.errors import ConfigInvalid
from flashferry.model.exit_codes import ExitCode
from flashferry.service.people.accounts import (
    NewPerson,
    add_person,
    give_grants,
    made_password,
    passwords_of,
    set_active,
    set_password,
    take_grants,
)
from flashferry.service.people.provisioning import grant_of
from flashferry.store.service.people import grants_of, people, person

if TYPE_CHECKING:
    from flashferry.service.service import Service

app = App(help="Enter people, give them roles, disable them, replace a lost password.")

ReasonOption = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why, for the audit.")]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="What he is known by.")]
RolesArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="ROLE[@SITE]", help="viewer, operator, approver, auditor or admin.", show_default=False),
]
RolesOption = Annotated[
    list[str] | None,
    typer.Option("--role", metavar="ROLE[@SITE]", help="A role, of one site or of all; may be repeated."),
]


@app.command("add")
def add(
    name: NameArgument,
    roles: RolesOption = None,
    display: Annotated[str, typer.Option("--display", metavar="TEXT", help="The name for people.")] = "",
    email: Annotated[str, typer.Option("--email", metavar="ADDRESS", help="The address for mail.")] = "",
    config: ConfigOption = None,
    state_dir: StateOption = None,
    json: JsonOption = False,
) -> None:
    """Add a person with a local account; the password is asked for, or made up and shown once."""
    grants = tuple(grant_of(word) for word in roles or ())
    with opened(config, state_dir) as (service, actor):
        given = given_password(name)
        password = given if given is not None else made_password()
        new = NewPerson(name=name, display=display, email=email, password=password, grants=grants)
        add_person(service, actor, new, passwords_of(service))
    _print_person(service, name, json, "is entered", password=password if given is None else None)


@app.command("grant")
def grant(
    name: NameArgument,
    roles: RolesArgument = None,
    named: RolesOption = None,
    take: Annotated[bool, typer.Option("--take", help="Take them away instead.")] = False,
    config: ConfigOption = None,
    state_dir: StateOption = None,
    json: JsonOption = False,
) -> None:
    """Give a person more roles, or take some away."""
    grants = [grant_of(word) for word in (*(roles or ()), *(named or ()))]
    if not grants:
        raise ConfigInvalid("expected a role, found none", hint=f"Name one after {name}, as operator@SITE or viewer")
    with opened(config, state_dir) as (service, actor):
        (take_grants if take else give_grants)(service, actor, name, grants)
    _print_person(service, name, json, "has these roles")


@app.command("disable")
def disable(
    name: NameArgument,
    reason: ReasonOption = "",
    config: ConfigOption = None,
    state_dir: StateOption = None,
    json: JsonOption = False,
) -> None:
    """Disable a person: their sessions and tokens are invalid from now on. No one is ever deleted."""
    _set_active(name, False, reason, config, state_dir, json)


@app.command("enable")
def enable(
    name: NameArgument,
    reason: ReasonOption = "",
    config: ConfigOption = None,
    state_dir: StateOption = None,
    json: JsonOption = False,
) -> None:
    """Enable a person who was disabled, or locked by wrong passwords."""
    _set_active(name, True, reason, config, state_dir, json)


@app.command("password")
def password(
    name: NameArgument, config: ConfigOption = None, state_dir: StateOption = None, json: JsonOption = False
) -> None:
    """Set a person's password and end their sessions; it is asked for, or made up and shown once."""
    with opened(config, state_dir) as (service, actor):
        given = given_password(name)
        new = given if given is not None else made_password()
        set_password(service, actor, name, new, passwords_of(service))
    _print_person(service, name, json, "has another password", password=new if given is None else None)


@app.command("list")
def list_people(config: ConfigOption = None, state_dir: StateOption = None, json: JsonOption = False) -> None:
    """List people with their roles."""
    with opened(config, state_dir) as (service, _), service.database.reading() as database:
        names = [one.name for one in people(database)]
    found = [_person_json(service, name) for name in names]

    def human() -> None:
        for one in found:
            echo(f"{one['name']}  {one['state']}  {one['source']}  {' '.join(map(str, _words(one)))}")
        if not found:
            echo("No one is there yet: 'flashferry service init' makes the first admin.")

    finish("service-user", ExitCode.OK, {"people": found}, as_json=json, human=human)


def _set_active(name: str, is_active: bool, reason: str, config: object, state_dir: object, json: bool) -> None:
    assert config is None or isinstance(config, Path)
    assert state_dir is None or isinstance(state_dir, Path)
    with opened(config, state_dir) as (service, actor):
        set_active(service, actor, name, is_active=is_active, reason=reason)
    _print_person(service, name, json, "is enabled" if is_active else "is disabled")


def _print_person(service: Service, name: str, as_json: bool, became: str, password: str | None = None) -> None:
    """Print a user's present data and exit; a generated password is shown only this once."""
    found = _person_json(service, name)
    content = found | ({"password": password} if password is not None else {})

    def human() -> None:
        echo(f"{name} {became}: {found['state']}, {' '.join(map(str, _words(found))) or 'no roles'}")
        if password is not None:
            echo(f"The password, shown this once: {password}")

    finish("service-user", ExitCode.OK, {"person": content}, as_json=as_json, human=human)


def _words(found: dict[str, object]) -> list[object]:
    roles = found["roles"]
    assert isinstance(roles, list)
    return roles


def _person_json(service: Service, name: str) -> dict[str, object]:
    with service.database.reading() as database:
        found, grants = person(database, name), grants_of(database, name)
    assert found is not None
    return {
        "name": found.name,
        "display": found.display,
        "email": found.email,
        "source": found.source,
        "state": found.state,
        "roles": [f"{one.role}@{one.site}" for one in grants],
    }
