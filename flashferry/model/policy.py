"""The settings of a run, and where the server listens.

Each setting is a field here. Its command-line option, its field in the service's bodies and forms, in plans and their
differences, its handling on resume, and its row in the documentation are derived from that field.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime
from enum import StrEnum
from functools import cache, partial, reduce
from pathlib import Path
from typing import Any, Self, get_type_hints

import msgspec
from msgspec import Struct
from msgspec import field as struct_field

from flashferry.core.errors import ConfigInvalid
from flashferry.core.values import field_names, replace
from flashferry.images.image import Digests, published_digests
from flashferry.model.limits import Limits, RetryPolicy, parse_until
from flashferry.model.setting import KEY, AtService, Setting, Subject, setting
from flashferry.model.waves import WavePolicy
from inventory.transport_policy import AS_USUAL, USUAL

Chosen = Mapping[str, object]
"""Chosen settings by name; missing ones keep their value."""


_image = partial(setting, subject=Subject.IMAGE)


class TuneMode(StrEnum):
    """Which devices are tuned: those that gain from it as far as known, all, or none."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


def _transport(text: str) -> str:
    # Start time: `--help` must not import the transports.
    from flashferry.transports.transport_selection import check_asked

    return check_asked(text)


def _extra(name: str) -> str:
    # Start time: `--help` must not import the steps.
    from tasks.tcp_config import EXTRAS

    if name not in EXTRAS:
        raise ConfigInvalid(
            f"--extra: expected {' or '.join(EXTRAS)}, found {name!r}",
            hint="Give one of these words; 'flashferry stage --help' says what each does",
        )
    return name


def _until(text: str) -> datetime:
    return parse_until(text, datetime.now().astimezone())


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSettings:
    """The settings that a plan contains and that are approved with it.

    Attributes:
        limits: Concurrency.
        policy: Waves, and when the run stops.
    """

    limits: Limits = field(default_factory=Limits)
    policy: WavePolicy = field(default_factory=WavePolicy)
    tune: TuneMode = setting(
        TuneMode.AUTO,
        subject=Subject.TUNING,
        help="Devices to tune: auto leaves out those shown not to gain from it",
        usual="auto",
        label="devices to tune",
        choices=TuneMode,
        is_settled=True,
    )
    any_image: bool = _image(
        False,
        help="Insist on an image that is known to be for another platform, or that goes to several of them",
        label="an image of another platform, or of several, is insisted on",
    )
    uncapped: bool = setting(
        False,
        subject=Subject.SERVER,
        help="Let copies run with neither a cap nor a pace, where no link rate is stated and this host grants no BBR",
        label="copies with neither a cap nor a pace",
    )
    transport: str = setting(
        AS_USUAL,
        subject=Subject.SERVER,
        metavar="NAMES",
        help="By what devices fetch: ftp, http, scp, https or sftp, or several with commas, tried in that order until "
        "a byte came; auto begins with the fastest that is known; push where the inventory's 'transports' name it: we "
        "write the image by the device's own SCP server",
        usual="ftp, or the first that the inventory's 'transports' and 'clear_text' allow where they leave ftp out",
        label="transport",
        read=_transport,
    )
    verify_signature: bool = _image(
        False,
        help="Have devices verify the vendor's signature in the image after the copy",
        label="verify the vendor's signature",
        at_service=AtService.START,
        is_settled=True,
    )
    add: bool = _image(
        False,
        help="Once restored, have devices in install mode add the image (install add); nothing is activated",
        label="add the image (install add)",
        at_service=AtService.PLAN,
    )
    ready: bool = _image(
        False,
        help="At the end, ask devices whether they are ready to boot the image, member by member; --add asks it, too",
        label="ask whether devices are ready to boot it",
        at_service=AtService.START,
    )
    dead_man: bool | None = _image(
        None,
        option="--dead-man/--no-dead-man",
        help="Have devices take our lines back by themselves (EEM applet with a countdown) should the session be lost "
        "for good",
        usual="those that an earlier run has shown to take it",
        none="on devices that an earlier run has shown to take it",
        label="dead man (EEM applet)",
        at_service=AtService.PLAN,
    )

    def of_plan(self) -> dict[str, Any]:
        """Return the settings of a plan by field name."""
        return {name: getattr(self, name) for name in field_names(PlanSettings)}


@dataclass(frozen=True, slots=True, kw_only=True)
class StagePolicy(PlanSettings):
    """All settings of a run, as journals and jobs store them.

    Attributes:
        retry: Which failures are tried again.
    """

    retry: RetryPolicy = field(default_factory=RetryPolicy)
    until: datetime | None = setting(
        None,
        subject=Subject.WAVES,
        metavar="TIME",
        help="When the run must have ended: HH:MM (the next one) or a date and time",
        read=_until,
        planned=True,
    )
    window_bytes: int | None = setting(
        None,
        subject=Subject.TUNING,
        metavar="BYTES",
        help="TCP window to set; above 65535 to be scaled",
        usual="twice the bandwidth-delay product",
        least=16_384,
        most=1_073_741_823,
        is_settled=True,
    )
    extras: tuple[str, ...] = setting(
        (),
        name="extra",
        subject=Subject.TUNING,
        metavar="NAME",
        help="Set this TCP option too for the time of the copy: timestamps or path-mtu-discovery; may be repeated",
        read=_extra,
        is_settled=True,
    )
    remove_partial: bool = setting(
        False,
        help="Remove what a broken copy of ours left on flash, and copy once more",
    )
    md5: str | None = _image(
        None,
        metavar="HEX",
        help="The vendor's published MD5 of the image; another file is refused",
        read=lambda text: published_digests(md5=text).md5,
        planned=True,
        is_settled=True,
    )
    sha512: str | None = _image(
        None,
        metavar="HEX",
        help="The vendor's published SHA-512 of the image",
        read=lambda text: published_digests(sha512=text).sha512,
        planned=True,
        is_settled=True,
    )

    @classmethod
    def without_plan(cls, chosen: Chosen) -> Self:
        """Return the settings of a run without a plan; choosing a window or an extra implies tuning all devices."""
        asks = {"window_bytes", "extra"} & chosen.keys()
        return cls().changed({"tune": TuneMode.ALWAYS, **chosen} if asks else chosen)

    def changed(self, chosen: Chosen) -> Self:
        """Return these settings with some replaced.

        Raises:
            ConfigInvalid: A setting is unknown, or a value is invalid.
        """
        found = self
        known = settings()
        for name, value in chosen.items():
            if name not in known:
                raise ConfigInvalid(
                    f"setting {name!r}: expected one of {', '.join(known)}", hint="Give one of these names"
                )
            found = _with(found, known[name].path, _checked(known[name], value))
        return found

    @property
    def waves(self) -> WavePolicy:
        """Return how waves are made and when the run stops."""
        return self.policy

    @property
    def tunes(self) -> bool:
        """Return whether any device is tuned."""
        return self.tune is not TuneMode.NEVER

    @property
    def vendor(self) -> Digests:
        """Return the vendor's digests of the image."""
        return published_digests(self.md5, self.sha512)

    def of_device(self, *, is_untuned: bool, adds: bool, takes_dead_man: bool) -> Self:
        """Return the settings for one device.

        Args:
            is_untuned: Whether this device is excluded from tuning.
            adds: Whether the rule of its image requests `install add`.
            takes_dead_man: Whether an earlier run proved that a rollback applet works on it.
        """
        return replace(
            self,
            tune=TuneMode.NEVER if is_untuned else self.tune,
            add=self.add or adds,
            dead_man=takes_dead_man if self.dead_man is None else self.dead_man,
        )


class ServerPlace(Struct, frozen=True, kw_only=True):
    """Where our server listens.

    Attributes:
        address: Our address for devices; None takes the inventory's, else the one of the SSH connection.
        listen_address: Address that it binds.
        port: FTP port, 0 to 65535; None: 21 if possible, else the first free one from 2121.
        other_ports: Other ports by listener: `http`, `https`, and `ssh` for SCP and SFTP; a missing one is the
            well-known port if possible, else one of a few others.
        certificate: PEM file of the HTTPS certificate; None disables HTTPS.
        key: PEM file of its private key.
        passive_ports: Range for FTP data connections; None leaves it to the kernel.
        depot: Use of the host's depot: `auto`, `never`, or the path of its socket.
    """

    address: str | None = None
    listen_address: str = "0.0.0.0"  # noqa: S104 -- routers reach us by any interface; tickets decide who gets what
    port: int | None = None
    other_ports: Mapping[str, int] = struct_field(default_factory=dict)
    certificate: Path | None = None
    key: Path | None = None
    passive_ports: tuple[int, int] | None = None
    depot: str = "auto"

    @property
    def certificate_and_key(self) -> tuple[Path, Path] | None:
        """Return both files of the certificate; None for none."""
        return None if self.certificate is None or self.key is None else (self.certificate, self.key)

    def port_of(self, listener: str) -> int | None:
        """Return the configured port of a listener; None for none."""
        return self.port if listener == USUAL else self.other_ports.get(listener)

    def moved(self, given: ServerPlace) -> ServerPlace:
        """Return this place with the values given now; the depot is always the one given now."""
        return replace(
            self,
            address=given.address or self.address,
            port=self.port if given.port is None else given.port,
            other_ports={**self.other_ports, **given.other_ports},
            certificate=given.certificate or self.certificate,
            key=given.key or self.key,
            depot=given.depot,
        )


@cache
def settings() -> Mapping[str, Setting]:
    """Return all settings by name, in the order of the documentation."""
    return types.MappingProxyType({one.name: one for one in _settings(StagePolicy, ())})


def with_the_plan() -> tuple[Setting, ...]:
    """Return the settings that are chosen when a service makes a plan, and approved with it."""
    return tuple(one for one in settings().values() if one.at_service is not AtService.NEVER)


def at_the_start() -> tuple[Setting, ...]:
    """Return those of them that can also be switched on when a service starts the run."""
    return tuple(one for one in settings().values() if one.at_service is AtService.START)


def check_resumable(chosen: Chosen) -> None:
    """Check that no setting is given that is fixed when a run starts.

    Raises:
        ConfigInvalid: One is.
    """
    for name in chosen:
        if (known := settings().get(name)) is None or known.is_settled:
            raise settled_at_start(known.option if known is not None else name)


def settled_at_start(option: str) -> ConfigInvalid:
    """Return the error for an option that a resumed run does not accept."""
    return ConfigInvalid(
        f"{option} cannot be combined with --resume: a resumed run keeps what it was started with",
        hint="Leave it out, or start a new run: what is there already is not copied again",
    )


def as_options(chosen: Chosen) -> tuple[str, ...]:
    """Return settings as command-line arguments."""
    return tuple(filter(None, (settings()[name].word(value) for name, value in chosen.items())))


def carried(plan: PlanSettings) -> Iterator[tuple[Setting, Any]]:
    """Yield the settings of a plan with their values."""
    return ((one, reduce(getattr, one.path, plan)) for one in settings().values() if one.label)


def _checked(known: Setting, value: object) -> object:
    """Validate a value, and convert it to the field's type.

    Raises:
        ConfigInvalid: The type is wrong, or it is out of range.
    """
    try:
        found = msgspec.convert(value, known.kind)
    except msgspec.ValidationError as error:
        raise ConfigInvalid(
            f"{known.on}: {error}, found {value!r}",
            hint="Give one of the values that 'flashferry stage --help-all' lists",
        ) from None
    least, most = known.least, known.most
    if isinstance(found, int) and not ((least is None or found >= least) and (most is None or found <= most)):
        bounds = f"{least} or more" if most is None else f"{least} to {most}"
        raise ConfigInvalid(f"{known.on}: expected {bounds}, found {found}", hint="Give a number in this range")
    return found


def _settings(kind: type, path: tuple[str, ...]) -> Iterator[Setting]:
    hints = get_type_hints(kind)
    for one in fields(kind):
        where, hint = (*path, one.name), hints[one.name]
        if (known := one.metadata.get(KEY)) is not None:
            name = known.name or one.name
            option = known.option or f"--{name.replace('_', '-')}"
            yield replace(known, name=name, option=option, path=where, kind=hint, default=one.default)
        elif is_dataclass(hint) and isinstance(hint, type):
            yield from _settings(hint, where)


def _with(value: Any, path: tuple[str, ...], new: object) -> Any:
    first, *rest = path
    return replace(value, **{first: _with(getattr(value, first), tuple(rest), new) if rest else new})
