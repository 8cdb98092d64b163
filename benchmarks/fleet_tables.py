"""The figures of `benchmarks.fleet` as tables, and whether they are what we want to hold."""

from collections.abc import Iterator
from typing import Any

from benchmarks.report import about
from flashferry.lab.experiment.harness import markdown

Part = dict[str, Any]
Row = tuple[str, str, str, bool | None]
"""What is measured, what is wanted, what was found, and whether it is met; None where nothing is wanted."""


def to_markdown(parts: Part) -> str:
    """Return a table for each part that was measured."""
    blocks = []
    for name, rows in (("waiting", _waiting), ("sites", _sites), ("kills", _kills)):
        part = parts.get(name)
        if part is None:
            continue
        shown = ((text, wanted, found, _word(met)) for text, wanted, found, met in rows(part))
        blocks.append(f"**{name}**: {about(part)}.\n\n{markdown(('measure', 'wanted', 'found', ''), shown)}")
    return "\n\n".join(blocks) + "\n"


def missed(parts: Part) -> list[str]:
    """Return what was wanted and not found."""
    all_rows = {"waiting": _waiting, "sites": _sites, "kills": _kills}
    return [row[0] for name, part in parts.items() for row in all_rows[name](part) if row[3] is False]


def _word(met: bool | None) -> str:
    return {True: "met", False: "**missed**", None: ""}[met]


def _waiting(part: Part) -> Iterator[Row]:
    ours, naive = part["ours"], part.get("naive")
    cpu, rss, reaction = ours["cpu_ms_per_s_and_device"], ours["rss_bytes_per_device"] / 1e3, ours["reaction_s"]
    yield (
        f"controller's processor time at {ours['devices']} waiting devices, per second and device",
        "<= 0.5 ms", f"{cpu:.2f} ms", cpu <= 0.5,
    )  # fmt: skip
    yield "the same of our FTP server's process", "", f"{ours['server_cpu_ms_per_s_and_device']:.2f} ms", None
    yield "controller's resident memory per device", "<= 200 kB", f"{rss:.0f} kB", rss <= 200
    yield (
        f"from the last acknowledged byte to our next command, {reaction['count']} devices: median, 95 %, most",
        "", _seconds(reaction), None,
    )  # fmt: skip
    for step, text in (("connect", "login"), ("check", "check, about 20 commands"), ("verify", "hash run")):
        if spread := ours["steps_s"].get(step):
            yield f"{text}: median, 95 %, most", "", _seconds(spread), None
    if naive is not None:
        yield from _beside(naive, cpu)
        yield "its resident memory per device", "", f"{naive['rss_bytes_per_device'] / 1e3:.0f} kB", None


def _beside(naive: Part, cpu_ms: float) -> Iterator[Row]:
    """Tell what the naive fleet costs; where it kept a core busy, it may have wanted more."""
    theirs_ms, least = naive["cpu_ms_per_s_and_device"], "at least " if naive.get("saturated") else ""
    fleet = f"naive fleet (Nornir, netmiko `send_command`), {naive['devices']} stand-ins of the same kind"
    if least:
        fleet += "; a core or more was busy, and threads waited for the interpreter: a lower bound"
    yield fleet, "", f"{least}{theirs_ms:.2f} ms", None
    yield "its processor time over ours", ">= 3", f"{least}{theirs_ms / cpu_ms:.1f}", theirs_ms / cpu_ms >= 3


def _sites(part: Part) -> Iterator[Row]:
    count = len(part["sites"])
    yield (
        f"least busy of {count} lines, over the time in which there was work for it",
        ">= 90 %", f"{part['busy_least']:.1%}", part["busy_least"] >= 0.9,
    )  # fmt: skip
    yield "median of the lines", "", f"{part['busy_median']:.1%}", None
    payload, ahead = part["most_payload_of_cap_5_s"], part["ahead_of_cap_5_s"]
    yield (
        f"most payload of a site's copies in 5 s, of the cap ({part['cap_share']:.0%} of the line), a pair each ahead",
        f"<= {1 + ahead:.1%}", f"{payload:.1%}", payload <= 1 + ahead,
    )  # fmt: skip
    long = part["most_payload_of_cap_30_s"]
    yield "the same in 30 s", f"<= {1 + ahead / 6:.1%}", f"{long:.1%}", long <= 1 + ahead / 6
    yield (
        f"whole run over the bound of {part['bound_s']:.0f} s by bytes alone",
        "<= 1.1", f"{part['of_bound']:.2f} ({part['total_s']:.0f} s)", part["of_bound"] <= 1.1,
    )  # fmt: skip
    yield (
        "devices whose image was copied once",
        str(part["devices"]),
        str(part["copied_once"]),
        (part["copied_once"] == part["devices"]),
    )


def _kills(part: Part) -> Iterator[Row]:
    kills = part["kills"]
    shown = ", ".join(f"{count} {who}" for who, count in kills.items())
    yield f"kills in {part['rounds']} runs", "50", f"{sum(kills.values())} ({shown})", sum(kills.values()) >= 50
    yield "violations", "0", str(len(part["violations"])), not part["violations"]
    yield "devices staged and verified, configurations as before", "", str(part["devices_staged"]), None
    yield (
        "images that became whole on a flash and stayed; more than devices would be without need",
        "",
        str(part["copies_whole"]),
        None,
    )
    taken_back = str(part["copies_taken_back"])
    yield "images that a device dropped itself, because a kill broke the copy after the last byte", "", taken_back, None
    yield "copies begun, those that a kill broke off included", "", str(part["copies_begun"]), None


def _seconds(spread: dict[str, float]) -> str:
    return f"{spread['median']:.2f}, {spread['p95']:.2f}, {spread['most']:.2f} s"
