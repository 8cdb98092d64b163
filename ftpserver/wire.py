"""The local control channel: one JSON object per line between the parent and the serving process.

A request carries `id` and `op`; its answer carries `re` and either `ok` or `error`. What happens by itself comes as
`event` or `login_failure`. The channel is a socket pair nobody else can reach, and it never carries a password.
"""

import json
from dataclasses import dataclass
from typing import Any

from ftpserver.codec import encode
from ftpserver.grants import ServerGrants
from ftpserver.settings import ServerSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """The first line to the serving process: how to run, and whose death ends it."""

    settings: ServerSettings
    parent_pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """The first line from the serving process."""

    port: int
    grants: ServerGrants


def line(**message: Any) -> bytes:
    """Encode one message."""
    return json.dumps({name: encode(value) for name, value in message.items()}, separators=(",", ":")).encode() + b"\n"
