"""Choose the attempt of a device that decides what became of its configuration. Pure.

An attempt that found the image there already touches nothing. Where an attempt before it had tuned the device, by a run
that died, say, and recovery restored it, then that is what became of the device: changed, restored, proven; not
"never changed".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flashferry.core.json_access import Node
from flashferry.model.states import ACCEPTED_LABEL, Restored


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreSource:
    """Where it stands what became of a device's configuration.

    Attributes:
        account: The JSON object that has `restored`, `restore` and the failure: a record, or what recovery said.
        record: The record of that attempt.
        by_recovery: Whether it was recovery that restored the device.
        ago: How many attempts back that was; 0 for the latest.
    """

    account: dict[str, Any]
    record: dict[str, Any]
    by_recovery: bool
    ago: int = 0

    @property
    def restored(self) -> str | None:
        """Return whether the configuration is what it was, or None where that is not recorded."""
        return Node(self.account).text("restored")

    @property
    def is_accepted(self) -> bool:
        """Return whether the operator accepted the configuration as it is: it is not proven to be what it was."""
        return bool(Node(self.account).flag("is_accepted"))

    @property
    def label(self) -> str | None:
        """Return what became of the configuration in the word for people, or None where the run did not say."""
        if self.is_accepted:
            return ACCEPTED_LABEL
        return Restored(self.restored).label if self.restored in set(Restored) else self.restored


def restore_source(record: dict[str, Any], attempts: Sequence[dict[str, Any]] = ()) -> RestoreSource:
    """Return the last account of a device that had been changed; of one that never was, that of its latest attempt.

    Args:
        record: Record of the latest attempt.
        attempts: Records of those before, the first one first.
    """
    latest = _source(record, 0)
    if latest.restored not in (None, Restored.UNTOUCHED.value):
        return latest
    for ago, earlier in enumerate(reversed(attempts), 1):
        found = _source(earlier, ago)
        if found.restored not in (None, Restored.UNTOUCHED.value):
            return found
    return latest


def _source(record: dict[str, Any], ago: int) -> RestoreSource:
    recovery = Node(record).at("recovery").value
    by_recovery = isinstance(recovery, dict) and bool(recovery)
    return RestoreSource(account=recovery if by_recovery else record, record=record, by_recovery=by_recovery, ago=ago)
