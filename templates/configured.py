"""Rows of the configuration and of who may change it, or does."""

from __future__ import annotations

from templates.row import Row, row


@row
class IpTcp(Row):
    """A global `ip tcp` line; `negated` is `no` where the configuration says so explicitly."""

    negated: str
    keyword: str
    value: str


@row
class ConfigStamp(Row):
    """A stamp on top of a configuration: `event` is `Last configuration change` or `NVRAM config last updated`."""

    event: str
    time: str
    zone: str
    date: str
    user: str


@row
class Unchanged(Row):
    """The stamp of a configuration that was not changed since the device started."""

    text: str


@row
class VrfDefinition(Row):
    """A VRF that the configuration defines, in the new form or the old one (`ip vrf`)."""

    name: str


@row
class PkiTrustpoint(Row):
    """A trustpoint that the configuration defines: a certificate authority that the device trusts, or itself."""

    name: str


@row
class CommandAuthorization(Row):
    """An `aaa authorization` line by which a server or the device decides about each command."""

    scope: str
    methods: str


@row
class LoweredCommand(Row):
    """A command that a `privilege exec` line gives to a lower level."""

    level: int
    command: str


@row
class LoweredLine(Row):
    """A configuration line that a `privilege configure` line gives to a lower level."""

    level: int
    command: str


@row
class ExclusiveMode(Row):
    """`configuration mode exclusive`: there is a configuration lock to ask about."""

    text: str


@row
class ArchiveSection(Row):
    """`archive`: configurations are kept, so that a rollback may be pending."""

    text: str


@row
class Privilege(Row):
    """The privilege level of the session, 0 to 15."""

    level: int


@row
class Refusal(Row):
    """A line with which IOS refuses a command."""

    text: str


@row
class ConfigLock(Row):
    """The exclusive configuration lock; `state` is LOCKED or FREE."""

    user: str
    tty: str
    type: str
    state: str
    cause: str


@row
class SessionLock(Row):
    """An access-session lock of a user who configures exclusively."""

    tty: str
    user: str


@row
class RollbackTimer(Row):
    """A pending rollback: when it is due all configuration changes since it was armed are taken back."""

    configured: str
    kind: str
    value: str
    user: str


@row
class ArchiveEntry(Row):
    """A configuration that `show archive` lists; `newest` is `Most Recent` or empty."""

    number: int
    path: str
    newest: str


@row
class ConfigDifference(Row):
    """A line of `show archive config differences`; `sign` is `+` or `-`."""

    sign: str
    line: str


@row
class NoDifference(Row):
    """The line that says that two configurations are equal."""

    text: str
