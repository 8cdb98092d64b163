"""The product's patience, shortened from outside: a case must end in seconds, and waits for the same things.

Nothing but how long it waits is changed. A name that is not there any more is told, and waits as long as it does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from flashferry.core.values import replace

PAUSES_S = (0.3, 0.6, 1.0, 1.5, 2.0)

CONSTANTS: dict[str, Any] = {
    "flashferry.run.device.restore.RESTORE_PAUSES_S": PAUSES_S,
    "flashferry.run.device.copy_recovery.RECONNECT_PAUSES_S": PAUSES_S,
    "flashferry.run.device.copy_recovery.POLL_S": 0.4,
    "flashferry.run.device.copy_recovery.SETTLED_S": 1.0,
    "flashferry.run.device.copy_recovery.STALLED_S": 3.0,
    "tasks.authorization.LIMIT_S": 5.0,
    "flashferry.devices.dialogue.ECHO_LIMIT_S": 4.0,
    "tasks.copy.LAST_ACK_S": 4.0,
    "tasks.copy.MEASURED_AFTER_S": 5.0,
    "flashferry.devices.netmiko_driver.LOGIN_LIMIT_S": 6.0,
    "flashferry.devices.netmiko_driver.TOTAL_LIMITS": 3,
    "tasks.partial_file.LIMIT_S": 6.0,
    "tasks.verify.SILENCE_LIMIT_S": 4.0,
    "tasks.verify.START_LIMIT_S": 4.0,
}
"""How long it waits, by module and name: each is longer than what a router of ours takes in good order."""

LONGEST_SILENCE_S = 5.0
RETRY_PAUSE_S = 0.5


def shorten() -> list[str]:
    """Shorten every limit that is there; return the names of those that are not."""
    missing = [name for name, value in CONSTANTS.items() if not _set(name, value)]
    wrapped: dict[str, Callable[[Any], Any]] = {
        "tasks.copy.copy_limits": _of_copies,
        "tasks.verify.hash_limits": _of_hashes,
        "flashferry.model.limits.pause_before_retry": _of_retries,
    }
    missing += [name for name, wrap in wrapped.items() if not _wrap(name, wrap)]
    return missing + ([] if _shorten_exchanges() else ["flashferry.devices.netmiko_driver.Connection.exchange"])


def _found(name: str) -> tuple[Any, str, Any] | None:
    module_name, _, attribute = name.rpartition(".")
    try:
        module = import_module(module_name)
        return module, attribute, getattr(module, attribute)
    except (ImportError, AttributeError):
        return None


def _set(name: str, value: object) -> bool:
    found = _found(name)
    if found is not None:
        setattr(found[0], found[1], value)
    return found is not None


def _wrap(name: str, wrap: Callable[[Any], Any]) -> bool:
    """Put a function in the place of another one in every module that has imported it."""
    found = _found(name)
    if found is None:
        return False
    original = found[2]
    for module in tuple(sys.modules.values()):
        for attribute, value in tuple(getattr(module, "__dict__", {}).items()):
            if value is original:
                setattr(module, attribute, wrap(original))
    return True


def _of_copies(original: Callable[..., Any]) -> Callable[..., Any]:
    def limits(**given: Any) -> Any:
        return replace(original(**given), start_s=8.0, stall_s=5.0, total_s=20.0, end_s=4.0)

    return limits


def _of_hashes(original: Callable[..., Any]) -> Callable[..., Any]:
    def limits(*given: Any, **named: Any) -> Any:
        return replace(original(*given, **named), start_s=4.0, silence_s=4.0, total_s=12.0)

    return limits


def _of_retries(original: Callable[..., Any]) -> Callable[..., Any]:
    def pause(*given: Any, **named: Any) -> float | None:
        wanted = original(*given, **named)
        return None if wanted is None else min(wanted, RETRY_PAUSE_S)

    return pause


def _shorten_exchanges() -> bool:
    found = _found("flashferry.devices.netmiko_driver.Connection")
    exchange = getattr(found[2], "exchange", None) if found else None
    if found is None or exchange is None:
        return False

    def exchanged(self: Any, command: str, *, limit_s: float, **more: Any) -> Any:
        return exchange(self, command, limit_s=min(limit_s, LONGEST_SILENCE_S), **more)

    found[2].exchange = exchanged
    return True
