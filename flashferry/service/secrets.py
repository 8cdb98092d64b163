"""Secrets of the service itself, read from a program or a systemd credential when needed, masked, stored nowhere."""

from __future__ import annotations

import os
from pathlib import Path

from flashferry.core.errors import ConfigInvalid
from flashferry.core.outside import keep_secret
from flashferry.service.settings import SecretFrom

CREDENTIALS_VARIABLE = "CREDENTIALS_DIRECTORY"
"""Where systemd puts the credentials of a unit (systemd.exec(5), CREDENTIALS)."""


def secret_of(source: SecretFrom, named: str) -> str:
    """Return a secret, without its line end; `named` is its section for messages, such as `[hooks.operations]`.

    Raises:
        ConfigInvalid: There is none, or it cannot be read.
    """
    found = _from_command(source, named) if source.command else _from_credential(source, named)
    secret = found.decode("utf-8", "replace").strip("\r\n")
    if not secret or not secret.isprintable():
        raise ConfigInvalid(
            f"{named}: expected one line of text for a secret, found {'something else' if secret else 'nothing'}",
            hint="See that its program or credential has the secret and nothing besides",
        )
    keep_secret(secret)
    return secret


def _from_command(source: SecretFrom, named: str) -> bytes:
    # Late: it comes with what logs in to devices, and the service starts without that.
    from flashferry.devices.secret_sources import printed_by

    def wrong(what: str) -> ConfigInvalid:
        return ConfigInvalid(
            f"{named}: secret_command '{source.command[0]}': {what}", hint="Run it by hand as the service's user"
        )

    return printed_by(source.command, wrong=wrong)


def _from_credential(source: SecretFrom, named: str) -> bytes:
    folder = os.environ.get(CREDENTIALS_VARIABLE)
    if not source.credential or folder is None:
        raise ConfigInvalid(
            f"{named}: expected {'credentials of systemd' if source.credential else 'where its secret is'}, found none",
            hint="Name secret_command, or start the service by a unit with LoadCredential=",
        )
    try:
        return (Path(folder) / Path(source.credential).name).read_bytes()
    except OSError as error:
        raise ConfigInvalid(
            f"{named}: secret_credential '{source.credential}': {error.strerror}",
            hint="Give the unit LoadCredential= of that name",
        ) from None
