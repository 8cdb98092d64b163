"""Link profiles: what a WAN link does in each direction, read from data files and changed while it runs."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashferry.lab.datafile import Table, read_file, read_table
from flashferry.lab.errors import LabError
from flashferry.lab.link_model import DirectionProfile

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One figure of a direction: its key in data files, and what is allowed.

    Attributes:
        field: Name of the field of `DirectionProfile`.
        key: Name in data files; its unit is in it.
        scale: A data file's figure times this is the field's.
        low: Least value of the field.
        high: Largest value of the field.
        whole: Only whole numbers.
        off: The value 0 in a data file means that there is none.
    """

    field: str
    key: str
    scale: float = 1.0
    low: float = 0.0
    high: float = 1.0
    whole: bool = False
    off: bool = False


FIGURES = (
    Figure(field="rate_bps", key="rate_kbit_s", scale=1e3, low=1e3, high=1e11),
    Figure(field="delay_s", key="delay_ms", scale=1e-3, high=10),
    Figure(field="jitter_s", key="jitter_ms", scale=1e-3, high=10),
    Figure(field="loss_ratio", key="loss_percent", scale=1e-2),
    Figure(field="burst_enter_ratio", key="burst_enter_percent", scale=1e-2),
    Figure(field="burst_leave_ratio", key="burst_leave_percent", scale=1e-2, low=1e-6),
    Figure(field="burst_loss_ratio", key="burst_loss_percent", scale=1e-2),
    Figure(field="policer_rate_bps", key="policer_kbit_s", scale=1e3, low=1e3, high=1e11, off=True),
    Figure(field="policer_burst_bytes", key="policer_burst_bytes", low=1500, high=1e9, whole=True),
    Figure(field="queue_packets", key="queue_packets", low=1, high=1e6, whole=True, off=True),
    Figure(field="queue_bytes", key="queue_bytes", low=1500, high=1e9, whole=True, off=True),
)
KEYS = tuple(figure.key for figure in FIGURES)
"""What a data file may say of a direction, or of both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkProfile:
    """A link between the core and a site.

    Attributes:
        name: Name of the data file it came from.
        source: Where its figures come from.
        to_site: Towards the devices: the data direction of a download.
        to_core: Towards the server: the direction of its acknowledgements.
    """

    name: str
    source: str
    to_site: DirectionProfile
    to_core: DirectionProfile

    @property
    def rtt_s(self) -> float:
        """Round-trip time of an empty packet on an idle link, in seconds."""
        return self.to_site.delay_s + self.to_core.delay_s

    @property
    def rate_bps(self) -> float:
        """What a download gets at most: the rate towards the site, or its policer's."""
        return min(self.to_site.rate_bps, self.to_site.policer_rate_bps or self.to_site.rate_bps)

    def with_changes(self, changes: Mapping[str, Any]) -> LinkProfile:
        """Return a copy with fields of both directions replaced, for example ``{"loss_ratio": 0.001}``.

        The keys ``to_site`` and ``to_core`` hold changes of one direction only.

        Raises LabError: a key or a value is not allowed.
        """
        changes = dict(changes)
        own = {key: changes.pop(key, {}) for key in ("to_site", "to_core")}
        try:
            return replace(
                self,
                to_site=checked(replace(self.to_site, **(changes | own["to_site"])), f"link {self.name}: to_site"),
                to_core=checked(replace(self.to_core, **(changes | own["to_core"])), f"link {self.name}: to_core"),
            )
        except TypeError as error:
            allowed = ", ".join(DirectionProfile.__dataclass_fields__)
            raise LabError(
                f"link {self.name}: {error}; allowed are {allowed}, or these within to_site or to_core."
            ) from error

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return asdict(self)

    def describe(self) -> str:
        """Return its figures in a line for people."""
        down, up = self.to_site, self.to_core
        words = [f"RTT {self.rtt_s * 1e3:g} ms", f"{down.rate_bps / 1e6:g} Mbit/s"]
        if up.rate_bps != down.rate_bps:
            words[-1] += f" down, {up.rate_bps / 1e6:g} up"
        if down.jitter_s or up.jitter_s:
            words.append(f"jitter {max(down.jitter_s, up.jitter_s) * 1e3:g} ms")
        if down.mean_loss_ratio or up.mean_loss_ratio:
            bursts = " in bursts" if down.burst_enter_ratio else ""
            words.append(f"loss {down.mean_loss_ratio * 100:.2g} %{bursts}")
        if down.policer_rate_bps is not None:
            words.append(f"policed to {down.policer_rate_bps / 1e6:g} Mbit/s")
        return ", ".join(words)


def profile_from_json(values: Mapping[str, Any]) -> LinkProfile:
    """Undo `LinkProfile.as_json`."""
    return LinkProfile(
        name=values["name"],
        source=values["source"],
        to_site=DirectionProfile(**values["to_site"]),
        to_core=DirectionProfile(**values["to_core"]),
    )


def load_profile(name: str, *, overrides: Table | None = None, base: Path | None = None) -> LinkProfile:
    """Read a profile.

    Args:
        name: One of the lab's own, or the path of a file that ends in ``.toml``.
        overrides: Figures that replace those of the file: keys of a profile, also within ``to_site`` or ``to_core``.
        base: Folder from which a relative path starts; the current one unless given.

    Raises LabError: there is no such profile, or a value is not allowed; file and key are named.
    """
    is_file = name.endswith(".toml")
    table = read_file((base or Path()) / name) if is_file else read_table("flashferry.lab.profiles", name)
    table.only("source", "to_site", "to_core", *KEYS)
    layers = (table, overrides) if overrides is not None else (table,)
    return LinkProfile(
        name=Path(name).stem if is_file else name,
        source=table.text("source"),
        to_site=_direction(layers, "to_site"),
        to_core=_direction(layers, "to_core"),
    )


def checked(profile: DirectionProfile, where: str) -> DirectionProfile:
    """Return a direction whose figures are all allowed, also together.

    Raises LabError: one is not; ``where``, the field and what is allowed are named.
    """
    for figure in FIGURES:
        value = getattr(profile, figure.field)
        kinds = int if figure.whole else (int, float)
        if value is None and figure.off:
            continue
        if isinstance(value, bool) or not isinstance(value, kinds) or not figure.low <= value <= figure.high:
            number = "a whole number" if figure.whole else "a number"
            none = ", or None for none" if figure.off else ""
            allowed = f"{number} from {figure.low:g} to {figure.high:g}{none}"
            raise LabError(f"{where}: {figure.field}: expected {allowed}, found {value!r}.")
    if profile.jitter_s > profile.delay_s:
        seen = f"jitter {profile.jitter_s * 1e3:g} ms and delay {profile.delay_s * 1e3:g} ms"
        raise LabError(f"{where}: jitter_s: expected at most the delay, for no packet arrives early; found {seen}.")
    return profile


def _direction(layers: tuple[Table, ...], direction: str) -> DirectionProfile:
    """Read a direction; each layer's own way counts more than what it says for both, and later layers more still."""
    values: dict[str, Any] = {}
    origin: dict[str, str] = {}
    for layer in layers:
        own = layer.table(direction)
        own.only(*KEYS)
        for table in (layer, own):
            known = {key: value for key, value in table.values.items() if key in KEYS}
            values |= known
            origin |= dict.fromkeys(known, table.where)
    fields: dict[str, Any] = {}
    for figure in FIGURES:
        if figure.key in values or figure.key in ("rate_kbit_s", "delay_ms"):
            table = Table(where=origin.get(figure.key, layers[0].where), values=values)
            fields[figure.field] = _value(table, figure)
    where = origin.get("jitter_ms", layers[-1].where)
    return checked(DirectionProfile(**fields), where)


def _value(table: Table, figure: Figure) -> float | None:
    if figure.off and table.values[figure.key] == 0:
        return None
    if figure.whole:
        return table.integer(figure.key, low=int(figure.low), high=int(figure.high))
    # Rounded, so that 0.01 percent is 0.0001 and not its neighbour.
    low, high = round(figure.low / figure.scale, 9), round(figure.high / figure.scale, 9)
    return round(table.number(figure.key, low=low, high=high) * figure.scale, 12)
