"""Line shapes again, held against every capture beside the repository at once, on every platform.

The captures are not part of this repository; without them the sweep skips, and the small ones in `tests/captures`
carry `test_shapes`.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flashferry.lab.errors import data_names

CAPTURES = Path(os.environ.get("FLASHFERRY_CAPTURES") or Path(__file__).parents[5] / "shared" / "captures")

FILES = {
    "show version": ("ShowVersion*", "show_version", "test_get_facts", "pyntc/*show_version", "cisshgo/*show_version*"),
    "dir": ("Dir", "dir"),
    "show archive": ("ShowArchive", "show_archive"),
    "show boot": ("ShowBoot*", "show_boot"),
    "show bootvar": ("ShowBoot*", "show_boot"),
    "show file systems": ("ShowFileSys*",),
    "show ip ssh": ("ShowIpSsh",),
    "show tcp brief numeric": ("ShowTcpBriefNumeric",),
    "show hosts": ("test_get_facts",),
    "show ip interface brief": ("test_get_facts",),
    "show processes cpu": ("show_processes_cpu",),
    "show users": ("show_users",),
    "show archive config differences": ("ShowArchiveConfigDifferences",),
    "show archive config incremental-diffs nvram:startup-config": ("ShowArchiveConfigIncrementalDiffs",),
}
KNOWN = {
    # Release names, and what only virtual, SD-WAN and Linux platforms print: none of them is among the captures.
    "show version": (
        r"^Cisco IOS Software \[", r"^Router operating mode", r"^License Type: N/A", r"Licensing is DISABLED$",
        r"^ROM: Bootstrap program is Linux", r"^Linux Unix", r"^2 Ethernet", r"K bytes of NVRAM\.$",
        r"^Switch uptime",
    ),
    # flash: as the device's own name, a file without digits, and nvram: where there is no flash.
    "dir": (r"^Directory of (flash|nvram):/$", r"packages\.conf$", r"<no date>  startup-config$", r"^No space info"),
    "show boot": (r"^Standby BOOT variable does not exist$", r"^CONFIG_FILE variable does not exist$"),
    "show bootvar": (r"variable does not exist$", r"^Standby BOOT variable = flash:packages\.conf;$"),
    # Sizes and prefixes of file systems that the two captures do not have.
    "show file systems": (r"disk +rw +(boot|hard|stby-\w+|flash|crash)\w*:", r"opaque +rw +[xy]modem:$"),
    "show ip ssh": (r"^Hostkey Algorithms:ssh-rsa$",),
    "show hosts": (r"^Default domain is lab\.example$",),
    "show users": (r" vty 0 +ferry ",),
    "show archive config incremental-diffs nvram:startup-config": (r"^!No changes were found$", r"^end$"),
    "show archive config differences": (r"^$", r"^!No changes were found$"),
}  # fmt: skip


def _captured(folders: tuple[str, ...]) -> str:
    nested = [f for folder in folders for f in CAPTURES.glob(f"**/{folder}/**/*") if f.suffix in {".txt", ".raw"}]
    found = nested + [f for folder in folders if "/" in folder for f in CAPTURES.glob(folder)]
    return "\n".join(f.read_text(encoding="utf-8", errors="replace") for f in found)


@pytest.mark.skipif(not CAPTURES.is_dir(), reason=f"no captures at {CAPTURES}; set FLASHFERRY_CAPTURES")
@pytest.mark.parametrize("platform", data_names("flashferry.lab.standin.platforms"))
@pytest.mark.parametrize("command", FILES)
def test_every_line_has_its_like_in_some_capture(
    make_console: Callable[..., Any], strangers: Callable[..., list[str]], command: str, platform: str
) -> None:
    """On every platform; what has none is known and stands in the table with its reason."""
    captured = _captured(FILES[command])
    assert captured
    output = make_console(platform).show(command)
    if "% Invalid input" in output:
        pytest.skip(f"{platform} has no such command")
    assert strangers(output, captured, KNOWN.get(command, ())) == []
