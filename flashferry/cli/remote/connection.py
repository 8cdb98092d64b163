"""Client of the remote service that a command line selects."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flashferry.cli.command_line import SERVICE_TOKEN_VARIABLE
from flashferry.core.errors import ConfigInvalid
from flashferry.service.client.client import ServiceClient
from flashferry.service.client.place import ServicePlace, checked_token, checked_url, token_in


@contextmanager
def service_client(words: Mapping[str, Any]) -> Iterator[ServiceClient]:
    """Open a client of the service that a command line selects.

    Args:
        words: Values of the options before the verb.

    Raises:
        ConfigInvalid: The address is invalid, the token is missing, or one of its files cannot be used.
    """
    url = checked_url(str(words.get("service") or ""))
    token = _token(url, words.get("service_token_file"))
    with ServiceClient(ServicePlace(url=url, token=token, ca=words.get("service_ca"))) as client:
        yield client


def _token(url: str, file: Path | None) -> str:
    # Removed from the environment: child processes inherit it.
    given = os.environ.pop(SERVICE_TOKEN_VARIABLE, "")
    if file is not None:
        return token_in(file, url)
    if not given and sys.stdin is not None and sys.stdin.isatty():
        given = getpass.getpass(f"Token for {url}: ", stream=sys.stderr)
    if not given:
        raise ConfigInvalid(
            f"the service at {url} needs a token, found none",
            hint=f"Put it in {SERVICE_TOKEN_VARIABLE}, or name its file with --service-token-file; {url}/me makes one",
        )
    return checked_token(given, url)
