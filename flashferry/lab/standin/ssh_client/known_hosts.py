"""What a device thinks of a server's host key: it remembers the first one of each server."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from flashferry.lab.standin.ssh_client.figures import HostKeyPolicy

Verdict = Literal["take", "ask", "changed", "unknown"]


class KnownHosts:
    """The keys that a device has seen, by server; used from the threads of its copies."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._keys: dict[tuple[str, int], bytes] = {}

    def key_of(self, server: tuple[str, int]) -> bytes | None:
        """Return the key that is remembered of a server."""
        with self._lock:
            return self._keys.get(server)

    def remember(self, server: tuple[str, int], key: bytes) -> None:
        """Keep the first key of a server; one that is there stays."""
        with self._lock:
            self._keys.setdefault(server, key)

    def forget(self) -> None:
        """Forget them all."""
        with self._lock:
            self._keys.clear()


def judge(policy: HostKeyPolicy, *, is_strict: bool, known: bytes | None, seen: bytes) -> Verdict:
    """Say what a device does about a key.

    Args:
        policy: The platform's, or that of its `stricthostkeycheck` line.
        is_strict: `ip ssh stricthostkeycheck`: only a key that is known is taken.
        known: The key that it remembers of the server; None for none.
        seen: The key that the server shows.
    """
    if known == seen:
        return "take"
    if known is None:
        if is_strict:
            return "unknown"
        return "ask" if policy == "ask" else "take"
    return "take" if policy == "any" and not is_strict else "changed"
