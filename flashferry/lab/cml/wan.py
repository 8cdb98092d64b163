"""What is put on links: conditions with their read-back, and captures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from flashferry.lab.cml.conditions import as_condition, as_json, checked, merged
from flashferry.lab.cml.elements import Capture, Lab, Link, new_id
from flashferry.lab.cml.faults import Switches
from flashferry.lab.cml.pcap import frames_of, pcap_of
from flashferry.lab.cml.runtime import NodeRuntime
from flashferry.lab.cml.texts import refused

_MOST_PACKETS = 1_000_000
_LONGEST_S = 86_400
_LONGEST_FILTER = 128
_CAPTURE_KEYS = frozenset({"encap", "maxpackets", "maxtime", "bpfilter"})


class Conditions:
    """Stores conditions, and has the runtime apply them."""

    def __init__(self, runtime: NodeRuntime, switches: Switches) -> None:
        self._runtime = runtime
        self._switches = switches

    def change(self, lab: Lab, link: Link, requested: object) -> dict[str, Any]:
        """Set, or change, the condition of a link, and return it as it is stored. Raises Refused: 400: it is none."""
        change = checked(requested)
        if self._switches.value("condition_refused"):
            raise refused("bad_condition", why="a switch of the stand-in refuses it")
        self._store(lab, link, {**change, **(self._switches.value("wrong_condition") or {})})
        return self.shown(link, is_operational=True)

    def take_imported(self, lab: Lab) -> None:
        """Apply what a topology brought, or leave it out, as the switch says: which the real one does is not known."""
        for link in lab.links.values():
            requested, link.condition = link.condition, None
            if requested and not self._switches.value("import_ignores_conditions"):
                self._store(lab, link, requested)

    def remove(self, lab: Lab, link: Link) -> None:
        """Remove the condition of a link. Raises Refused: 400: there is none."""
        if link.condition is None:
            raise refused("no_condition")
        link.condition = link.operational = link.applied = None
        self._runtime.set_condition(lab.lab_id, link.link_id, None)

    def shown(self, link: Link, *, is_operational: bool) -> dict[str, Any]:
        """Return a condition as it reads back; of a link without one nothing, which is not confirmed."""
        held = dict(link.condition or {})
        return {**held, "operational": link.operational} if is_operational else held

    def _store(self, lab: Lab, link: Link, change: Mapping[str, Any]) -> None:
        is_enabled = self._switches.value("is_condition_enabled_by_default")
        link.condition = merged(link.condition, change, is_enabled_by_default=is_enabled)
        requested = {**link.condition, **(self._switches.value("wrong_operational") or {})}
        hidden = self._switches.value("wrong_on_link")
        link.applied = {**requested, **(hidden or {})}
        in_force = self._runtime.set_condition(lab.lab_id, link.link_id, as_condition(link.applied))
        link.operational = (requested if requested["enabled"] else None) if hidden else as_json(in_force)


class Captures:
    """Runs captures on links, by the clock."""

    def __init__(self, runtime: NodeRuntime, *, clock: Callable[[], float], now: Callable[[], str]) -> None:
        self._runtime = runtime
        self._clock = clock
        self._now = now

    def start(self, lab: Lab, link: Link, config: object, *, is_up: bool, has_link_key: bool) -> dict[str, Any]:
        """Start a capture and return its status.

        Args:
            lab: The lab.
            link: The link.
            config: What was sent.
            is_up: Whether the link is.
            has_link_key: Whether the key is the link's id, as from 2.10 on.

        Raises Refused: 400.
        """
        checked_config = _checked_config(config)
        if not is_up:
            raise refused("capture_not_running", link_id=link.link_id)
        key = link.link_id if has_link_key else new_id()
        link.capture = Capture(config=checked_config, key=key, began_at=self._clock(), started=self._now())
        self._runtime.start_capture(lab.lab_id, link.link_id)
        return self.status(lab, link)

    def stop(self, lab: Lab, link: Link) -> None:
        """Stop a capture; what it has is kept."""
        capture = self._of(link)
        self._refresh(lab, link, capture)
        if capture.ended_at is None:
            self._end(lab, link, capture)

    def status(self, lab: Lab, link: Link) -> dict[str, Any]:
        """Return how far it is; of a link without any an empty object, which is not confirmed."""
        if link.capture is None:
            return {}
        self._refresh(lab, link, link.capture)
        packets = sum(1 for _ in frames_of(link.capture.content))
        return {
            "config": {**link.capture.config, "link_capture_key": link.capture.key},
            "starttime": link.capture.started,
            "packetscaptured": packets,
        }

    def key(self, link: Link) -> str:
        """Return the key of the last capture. Raises Refused: 404: there was none."""
        return self._of(link).key

    def content(self, lab: Lab, link: Link) -> bytes:
        """Return what it has, as pcap. Raises Refused: 404: there was none."""
        capture = self._of(link)
        self._refresh(lab, link, capture)
        return capture.content or pcap_of([])

    def _of(self, link: Link) -> Capture:
        if link.capture is None:
            raise refused("no_capture", link_id=link.link_id)
        return link.capture

    def _refresh(self, lab: Lab, link: Link, capture: Capture) -> None:
        if capture.ended_at is not None:
            return
        frames = list(frames_of(self._runtime.capture(lab.lab_id, link.link_id) or b""))
        most = capture.config.get("maxpackets", _MOST_PACKETS)
        capture.content = pcap_of(frames[:most])
        is_over = self._clock() - capture.began_at >= capture.config.get("maxtime", _LONGEST_S)
        if len(frames) >= most or is_over:
            self._end(lab, link, capture)

    def _end(self, lab: Lab, link: Link, capture: Capture) -> None:
        capture.ended_at = self._clock()
        self._runtime.stop_capture(lab.lab_id, link.link_id)


def _checked_config(config: object) -> dict[str, Any]:
    if not isinstance(config, dict) or not set(config) <= _CAPTURE_KEYS:
        raise refused("bad_request", why=f"capture: expected an object of {', '.join(sorted(_CAPTURE_KEYS))}")
    if "maxpackets" not in config and "maxtime" not in config:
        raise refused("bad_request", why="capture: expected maxpackets or maxtime")
    for key, most in (("maxpackets", _MOST_PACKETS), ("maxtime", _LONGEST_S)):
        if key in config and not (isinstance(config[key], int) and 1 <= config[key] <= most):
            raise refused("bad_request", why=f"capture: {key}: expected 1..{most}, found {config[key]!r}")
    if not 0 <= len(str(config.get("bpfilter", ""))) <= _LONGEST_FILTER:
        raise refused("bad_request", why=f"capture: bpfilter: at most {_LONGEST_FILTER} characters")
    return dict(config)
