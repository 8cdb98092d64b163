"""The Nornir connection `flashferry`: one NAPALM session per device, shared by all steps of a run.

nornir-napalm 0.6.0 writes the port into the `optional_args` dict that it gets; if that dict is a group's, every host
gets the first host's port. This plugin reads the same options, and copies them first.
"""

from __future__ import annotations

import copy
import os
import threading
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from nornir.core.configuration import Config
from nornir.core.inventory import Host
from nornir.core.plugins.connections import ConnectionPluginRegister
from nornir.core.task import Task

from flashferry.core.errors import ConfigInvalid
from flashferry.core.files import check_regular
from flashferry.core.value_description import described
from flashferry.devices.host_keys import HostKeys
from flashferry.devices.identity import guard_of, run_of
from flashferry.devices.login import Login
from flashferry.devices.session import DeviceSession
from flashferry.devices.transcript import Recent, Recorder, Transcripts
from inventory.entry_checks import OPTIONAL_ARGS
from inventory.host_key_rules import (
    ALT_KEY_FILE,
    HostKeyPolicy,
    KeyRules,
    key_rules,
    known_hosts_file,
    state_directory,
)
from inventory.host_view import view

NAME = "flashferry"
KEY_RULES = "key_rules"
ENABLE_SECRET = "enable_secret"  # noqa: S105 -- the name of an inventory key, not a secret

FILES = ("key_file", "ssh_config_file")
"""netmiko's options that name files to read."""

STEP = "connect"

SESSION_LOG = ("session_log", "session_log_file_mode", "session_log_record_writes")
"""netmiko's options for a session log, which are ignored: it would contain the ticket of a copy. Use transcripts
(`flashferry.devices.transcript`) instead."""

RECORDER = "recorder"
TRANSCRIPTS = "flashferry_transcripts"
"""Key in a Nornir configuration's `user_defined` with the operator's `Transcripts` object; a text, as a file may have
there, is ignored."""

_recent: WeakKeyDictionary[Task, Recent] = WeakKeyDictionary()
_lock = threading.Lock()


class FlashferryConnection:
    """A Nornir connection plugin that opens a DeviceSession."""

    def __init__(self) -> None:
        self.connection: DeviceSession | None = None
        self.state: dict[str, Any] = {}

    def open(
        self,
        hostname: str | None,
        username: str | None,
        password: str | None,
        port: int | None,
        platform: str | None,  # noqa: ARG002 -- Nornir's signature; `view` has checked it
        extras: dict[str, Any] | None = None,
        configuration: Config | None = None,  # noqa: ARG002 -- Nornir's signature
    ) -> None:
        """Open the session.

        Raises:
            DeviceUnreachable: No SSH session could be opened.
            HostKeyRefused: The device's host key is not the known one.
            LoginRefused: User, password or enable secret were not accepted.
        """
        given = dict(extras or {})
        recorder = given.pop(RECORDER, None) or Recorder(Recent())
        options = copy.deepcopy(given)
        name = str(options.get("name", hostname))
        optional_args = _mapping(name, OPTIONAL_ARGS, options.get(OPTIONAL_ARGS))
        for key in SESSION_LOG:
            optional_args.pop(key, None)
        self.connection = DeviceSession(
            Login(
                name=name,
                address=hostname or "",
                port=port or 22,
                username=username or "",
                password=password or "",
                enable_secret=options.get(ENABLE_SECRET) or optional_args.pop("secret", None),
                host_keys=_host_keys(name, options[KEY_RULES], optional_args),
                optional_args=optional_args,
                recorder=recorder,
            )
        )

    def close(self) -> None:
        """Log out."""
        if self.connection is not None:
            self.connection.close()


def _mapping(name: str, what: str, found: object) -> dict[str, Any]:
    """Check that a host's options are a mapping, and return them; an inventory plugin may have set any value."""
    if not isinstance(found or {}, dict):
        raise ConfigInvalid(
            f"connection_options: {what}: expected a mapping, found {described(found)}",
            host=name,
            step=STEP,
            hint="Write each option below it, one per line and indented",
        )
    return dict(found) if isinstance(found, dict) else {}


def _host_keys(name: str, rules: KeyRules, optional_args: dict[str, Any]) -> HostKeys:
    """Return the known hosts of a device, by our keys and by netmiko's options."""
    policy, path = rules.policy, rules.known_hosts
    if optional_args.pop("ssh_strict", False):
        policy = HostKeyPolicy.STRICT
    if optional_args.pop("system_host_keys", False):
        path = Path("~/.ssh/known_hosts").expanduser()
    given = optional_args.pop(ALT_KEY_FILE, None)
    if optional_args.pop("alt_host_keys", False) and given:
        path = _confined(name, given) or path
    _check_files(name, optional_args)
    return HostKeys(path=path, policy=policy, device=name)


def _confined(name: str, given: object) -> Path | None:
    try:
        return known_hosts_file(given, state_directory())
    except ConfigInvalid as error:
        raise ConfigInvalid(f"{ALT_KEY_FILE}: {error.message}", host=name, step=STEP, hint=error.hint) from None


def _check_files(name: str, optional_args: dict[str, Any]) -> None:
    """Refuse a pipe as key or configuration file, for which a library would wait forever."""
    for key in FILES:
        try:
            if optional_args.get(key):
                check_regular(Path(str(optional_args[key])).expanduser())
        except (OSError, ValueError, RuntimeError) as error:
            found = error.strerror if isinstance(error, OSError) else "expected the path of a file"
            raise ConfigInvalid(
                f"optional_args: {key}: {found}",
                host=name,
                step=STEP,
                hint=f"Correct '{key}' below optional_args in the inventory, or leave it out",
            ) from None


def session_of(task: Task) -> DeviceSession:
    """Return the device's open session; open one if there is none or it was lost.

    The device's identity is checked at every login before anything but `show version` is sent, see
    `flashferry.devices.identity`.

    Raises:
        OtherDevice: The address belongs to another device than the run's; the session was closed.
        DeviceUnreachable: No SSH session could be opened.
        HostKeyRefused: The device's host key is not the known one; no password was sent.
        LoginRefused: User, password or enable secret were not accepted.
        ConfigInvalid: The inventory says nothing usable about the host.
    """
    host = task.host
    found = host.connections.get(NAME)
    if found is not None and found.connection is not None and not found.connection.alive:
        host.close_connection(NAME)
        found = None
    is_new = found is None
    if is_new:
        _open(host, task.nornir.config, recent_of(task))
    session: DeviceSession = host.get_connection(NAME, task.nornir.config)
    if is_new:
        try:
            guard_of(task).check(session)
        except BaseException:
            # The identity was not confirmed, so the next step must not find the session open.
            host.connections.pop(NAME, None)
            session.abandon()
            raise
    return session


def recent_of(task: Task) -> Recent:
    """Return the end of the output of a device's sessions in this run; it lives as long as the run's task."""
    with _lock:
        return _recent.setdefault(run_of(task), Recent())


def remark(task: Task, text: str) -> None:
    """Add a remark to the transcript of a device's session, if it has one."""
    found = task.host.connections.get(NAME)
    session: DeviceSession | None = found.connection if found is not None else None
    if session is not None:
        session.recorder.note(text)


_BY_HAND = (
    "Give them in the inventory, set FLASHFERRY_USERNAME and FLASHFERRY_PASSWORD, or use --keyring or --secrets-command"
)
_OF_A_JOB = (
    "Give them in the inventory, or name in service.toml where they come from, in [runs]: "
    'options = ["--secrets-command", "PROGRAM"]; a service hands no FLASHFERRY_USERNAME or FLASHFERRY_PASSWORD on'
)
"""Hint for a service's job, from whose environment those variables are removed."""


def _open(host: Host, configuration: Config, recent: Recent) -> None:
    device = view(host)
    # Inventories have NAPALM's options under the connection name `napalm`; they apply to ours, too.
    given = host.get_connection_parameters("napalm")
    if not given.username or given.password is None:
        raise ConfigInvalid(
            "no username or no password",
            host=device.name,
            step="connect",
            hint=_OF_A_JOB if os.environ.get("FLASHFERRY_JOB") else _BY_HAND,
        )
    extras = copy.deepcopy(_mapping(device.name, "extras", given.extras))
    transcripts = configuration.user_defined.get(TRANSCRIPTS)
    sink = transcripts.of(device.name) if isinstance(transcripts, Transcripts) else None
    extras |= {
        "name": device.name,
        ENABLE_SECRET: host.get(ENABLE_SECRET),
        KEY_RULES: key_rules(host),
        RECORDER: Recorder(recent, sink),
    }
    ConnectionPluginRegister.register(NAME, FlashferryConnection)
    host.open_connection(
        connection=NAME,
        configuration=configuration,
        hostname=device.address,
        username=given.username,
        password=given.password,
        port=given.port or device.port,
        platform=device.platform,
        extras=extras,
    )
