"""What a lab can emulate on this machine: three rungs, and why the higher ones are out of reach."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from flashferry.lab.errors import LabError
from flashferry.lab.namespaces import probe, probe_namespaces
from flashferry.lab.world_spec import Addressing


class Rung(StrEnum):
    """What is emulated, in words that label every figure measured there."""

    FULL = "namespaces with an emulated WAN"
    NAMESPACES = "namespaces without a WAN: no round-trip time, no loss, no rate"
    LOOPBACK = "plain loopback: only the receive window is emulated, no round-trip time, no loss, no rate, no SACK"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """The highest rung that this machine allows; ``reason`` says what is missing for the full one, else it is empty."""

    rung: Rung
    reason: str = ""


def best_rung() -> Reach:
    """Find the highest rung that this process can build; nothing stays behind."""
    full = probe()
    if full.may_run:
        return Reach(rung=Rung.FULL)
    if probe_namespaces().may_run:
        return Reach(rung=Rung.NAMESPACES, reason=full.reason)
    return Reach(rung=Rung.LOOPBACK, reason=full.reason)


def check_rung(rung: Rung) -> None:
    """Refuse a rung that this process cannot build. Raises LabError: it cannot; the sentence says what is missing."""
    able = {Rung.FULL: probe, Rung.NAMESPACES: probe_namespaces}.get(rung)
    if able is not None:
        found = able()
        if not found.may_run:
            raise LabError(found.reason)


_CLAIM_PORT = 22022
_LOOPBACK_SSH_PORT = 2222
"""Not 22: the host's own SSH server may listen on all addresses, and an ordinary user may not."""
_FIRST_BLOCK, _LAST_BLOCK = 18, 250


@contextlib.contextmanager
def addressing_of(rung: Rung) -> Iterator[Addressing]:
    """Yield where the addresses of a world on a rung lie; on loopback, a block of 127/8 that no other world has.

    All of 127.0.0.0/8 is local on Linux, so each device has an address of its own there too. The block is claimed by
    a bound socket, which the kernel frees however this process ends.

    Raises LabError: every block is in use.
    """
    if rung is not Rung.LOOPBACK:
        yield Addressing()
        return
    with socket.socket() as claim:
        block = _claim(claim)
        yield Addressing(prefix=f"127.{block}", server_address="127.0.0.1", port=_LOOPBACK_SSH_PORT)


def _claim(claim: socket.socket) -> int:
    for block in range(_FIRST_BLOCK, _LAST_BLOCK + 1):
        with contextlib.suppress(OSError):
            claim.bind((f"127.{block}.0.1", _CLAIM_PORT))
            return block
    raise LabError(f"All {_LAST_BLOCK - _FIRST_BLOCK + 1} loopback blocks for labs are in use; stop another lab first.")
