"""Transports asked for on the command line, and the options of a speed test on this host."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from flashferry import api
from flashferry.core.errors import ConfigInvalid
from flashferry.model.probe_result import COPIES, SweepOptions
from flashferry.tcp.speed_test_size import TYPICAL_IMAGE_BYTES
from flashferry.transports.transport_selection import check_asked
from inventory.transport_policy import AS_USUAL

if TYPE_CHECKING:
    from flashferry.cli.probe import ProbeAsked
    from flashferry.model.policy import ServerPlace

_ALL = "all"


def asked_transport(transport: str | None) -> str:
    """Return the transport that the operator asked for, or the default.

    Raises:
        ConfigInvalid: The transport is unknown.
    """
    return AS_USUAL if transport is None else check_asked(transport)


def probe_options(asked: ProbeAsked, server: ServerPlace) -> api.ProbeOptions:
    """Return the options of a speed test from this host.

    Raises:
        ConfigInvalid: Two options contradict each other, or a transport is unknown.
    """
    others = {"--transport": asked.transport, "--as-is": asked.as_is, "--ssh-sweep": asked.ssh_sweep}
    return api.ProbeOptions(
        as_is=asked.as_is or not asked.tuned,
        tuned=asked.tuned or not asked.as_is,
        image_bytes=_image_bytes(asked.image, asked.image_mb),
        seconds=asked.seconds,
        server=server,
        transport=asked_transport(asked.transport),
        transports=_compared(asked.transports, given=others),
        ssh_sweep=_sweep(asked.sweep_copies, is_asked=asked.ssh_sweep, keeps=asked.keep, as_is=asked.as_is),
    )


def _sweep(copies: int | None, *, is_asked: bool, keeps: bool, as_is: bool) -> SweepOptions | None:
    """Return how to compare SSH ciphers and MACs; None if they are not compared.

    Raises:
        ConfigInvalid: An option needs `--ssh-sweep`, or contradicts it.
    """
    if is_asked and as_is:
        raise ConfigInvalid(
            "--ssh-sweep cannot be combined with --as-is: its copies are tuned as a run's", hint="Leave one of them out"
        )
    if is_asked:
        return SweepOptions(copies=copies or COPIES, keeps=keeps)
    if copies is not None or keeps:
        given = "--keep" if copies is None else "--sweep-copies"
        raise ConfigInvalid(f"{given}: expected --ssh-sweep with it, found none", hint="Give it too, or leave both out")
    return None


def _compared(transports: str | None, *, given: Mapping[str, object]) -> str:
    """Return the transports to compare, or an empty string.

    Raises:
        ConfigInvalid: A transport is unknown, or an option for a single transport was given too.
    """
    if transports is None:
        return ""
    if other := next((name for name, value in given.items() if value), None):
        raise ConfigInvalid(
            f"--transports cannot be combined with {other}: it times a tuned copy by each", hint="Leave one of them out"
        )
    return transports if transports == _ALL else check_asked(transports, option="--transports")


def _image_bytes(image: Path | None, image_mb: float | None) -> int:
    if image is not None and image_mb is not None:
        raise ConfigInvalid("--image and --image-mb both give a size", hint="Give one of them")
    if image is not None:
        return api.checked_image(image).stat().st_size
    return TYPICAL_IMAGE_BYTES if image_mb is None else round(image_mb * 1e6)
