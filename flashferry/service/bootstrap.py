"""The beginning of a service: its tables, a configuration to fill in, and the first admin, who can do the rest."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from pathlib import Path

from flashferry.core.errors import ConfigInvalid
from flashferry.service.configuration.reading import USUAL_NAME, write_template
from flashferry.service.people.accounts import NewPerson, add_person
from flashferry.service.people.passwords import Passwords
from flashferry.service.principal import Actor, Grant, Role
from flashferry.service.service import Service
from flashferry.store.service.people import active_admins

USUAL_ADMIN = "admin"
_PASSWORD_BYTES = 18


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """What was made.

    Attributes:
        admin: The first admin's name.
        password: His password, where it was made up here: it is told once and kept nowhere.
        configuration: The configuration file.
        is_configuration_new: Whether it was written now, commented, for somebody to fill in.
    """

    admin: str
    password: str | None = field(default=None, repr=False)
    configuration: Path
    is_configuration_new: bool


def begin(
    service: Service, actor: Actor, *, name: str, password: str | None, configuration: Path | None = None
) -> Begun:
    """Make the first admin, and a configuration where there is none.

    Args:
        service: The service; its tables are there.
        actor: Who does it.
        name: What the admin is called.
        password: His password; None: one is made up.
        configuration: Where the configuration is, or is to be; None: in the state folder.

    Raises:
        ConfigInvalid: There is an admin already, or the configuration cannot be written.
        ServiceError: Name or password will not do.
    """
    with service.database.reading() as database:
        if admins := active_admins(database):
            raise ConfigInvalid(
                f"expected a service without an admin, found {', '.join(sorted(admins))}",
                hint="Add people with 'flashferry service user add', or give a lost password anew with "
                "'flashferry service user password'",
            )
    configuration = configuration or service.state / USUAL_NAME
    # Before the admin: a password that was made up is told once, and not at all where this fails.
    is_new = write_template(configuration)
    given = password if password is not None else made_password()
    new = NewPerson(name=name, password=given, grants=(Grant(role=Role.ADMIN),))
    add_person(service, actor, new, Passwords(service.settings.people))
    return Begun(
        admin=name,
        password=given if password is None else None,
        configuration=configuration,
        is_configuration_new=is_new,
    )


def made_password() -> str:
    """Return a password that nobody guesses, 24 letters and digits."""
    return secrets.token_urlsafe(_PASSWORD_BYTES)
