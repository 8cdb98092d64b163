"""First start of a service: create the tables, a configuration to fill in, and the first admin."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from flashferry.core.errors import ConfigInvalid
from flashferry.service.configuration import USUAL_NAME, write_template
from flashferry.service.people.accounts import NewPerson, add_person, made_password
from flashferry.service.people.sign_in import Passwords
from flashferry.service.principal import Actor, Grant, Role
from flashferry.service.service import Service
from flashferry.store.service.people import active_admins


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """Result of the first start. `password` is set only if it was generated; it is not stored in clear text."""

    admin: str
    password: str | None = field(default=None, repr=False)
    configuration: Path
    is_configuration_new: bool


def begin(
    service: Service, actor: Actor, *, name: str, password: str | None, configuration: Path | None = None
) -> Started:
    """Create the first admin, and a configuration if there is none (`configuration` None: in the state folder).

    The tables must exist. A password is generated if there is none.

    Raises:
        ConfigInvalid: There is an admin already, or the configuration cannot be written.
        ServiceError: Name or password is not valid.
    """
    with service.database.reading() as database:
        if admins := active_admins(database):
            raise ConfigInvalid(
                f"expected a service without an admin, found {', '.join(sorted(admins))}",
                hint="Add users with 'flashferry service user add', or reset a lost password with "
                "'flashferry service user password'",
            )
    configuration = configuration or service.state / USUAL_NAME
    # Before the admin is created: its generated password is shown once, so nothing may fail afterwards.
    is_new = write_template(configuration)
    given = password if password is not None else made_password()
    new = NewPerson(name=name, password=given, grants=(Grant(role=Role.ADMIN),))
    add_person(service, actor, new, Passwords(service.settings.people))
    return Started(
        admin=name,
        password=given if password is None else None,
        configuration=configuration,
        is_configuration_new=is_new,
    )
