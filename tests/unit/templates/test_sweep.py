"""Every capture beside the repository is read, by a template of ours or of ntc-templates, or refused with a reason.

The captures are not part of this repository; without them the sweep skips, and the small ones in `tests/captures`
carry the tests.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml
from ntc_templates.parse import parse_output

from tasks.activating.boot_order import boot_lines
from templates import rows as kinds
from templates.rows import first, last, row_kinds, rows
from templates.version import parse_version

CAPTURES = Path(os.environ.get("FLASHFERRY_CAPTURES") or Path(__file__).parents[4] / "shared" / "captures")


@dataclass(frozen=True)
class Capture:
    """An output, and what upstream or its maker expects of it."""

    path: Path

    @property
    def name(self) -> str:
        return str(self.path.relative_to(CAPTURES))

    @property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @property
    def expected(self) -> Any:
        beside = self.path.with_suffix(".expected.json")
        return json.loads(beside.read_text()) if beside.exists() else None


def _dir(one: Capture) -> None:
    """Totals, and every file with its size."""
    (told,) = [value for key, value in one.expected["dir"].items() if key != "dir"]
    found = {row.name: str(row.size_bytes) for row in rows(kinds.DirFile, one.text)}
    assert found == {name: file["size"] for name, file in told["files"].items()}
    if "bytes_free" in told:
        assert first(kinds.DirTotals, one.text).free_bytes == int(told["bytes_free"])


def _dir_alone(one: Capture) -> None:
    """A listing of 22 rows with its totals."""
    assert len(rows(kinds.DirFile, one.text)) == 22
    assert first(kinds.DirTotals, one.text).free_bytes == 906104832


def _file_systems(one: Capture) -> None:
    """Every row that has a size; upstream leaves out those without."""
    found = [(r.prefixes, int(r.size), int(r.free)) for r in rows(kinds.FileSystem, one.text) if r.size.isdigit()]
    told = [(f["prefixes"], f["total_size"], f["free_size"]) for f in one.expected["file_systems"].values()]
    assert found == told


def _version(one: Capture) -> None:
    """Release, model and image line."""
    told, found = one.expected["version"], parse_version(one.text)
    assert found.release == told["version"]
    assert found.hardware[0] == told["chassis"]
    image = told.get("system_image")
    assert (found.image_file_system, found.image_path) == (
        (image.partition(":")[0], image.partition(":")[2].lstrip("/")) if image else (None, None)
    )
    register = first(kinds.ConfigRegister, one.text)
    assert (register.now if register else None) == told.get("curr_config_register")
    members = {number for number, switch in told.get("switch_num", {}).items() if "sw_ver" in switch}
    # One of upstream's parsers leaves the table out; a row of it begins with the mark of the active member.
    assert {str(member.number) for member in found.members} == members or set(re.findall(r"(?m)^\* +(\d+) ", one.text))


def _version_alone(one: Capture) -> None:
    """Without an expected file: the release is in the text, and so is the model."""
    found = parse_version(one.text)
    assert found.release
    assert found.release in re.findall(r"Version ([^,\s]+)", one.text)
    assert found.hardware
    assert f"{found.hardware[0]} (" in one.text
    assert found.image_file_system in {"flash", "bootflash"}


def _boot(one: Capture) -> None:
    """What upstream took for the boot variable is ours, and nothing where it found none."""
    found = {row.paths.rstrip(";") for row in rows(kinds.BootVariable, one.text) if row.paths}
    assert found == {path.rstrip(";") for path in _texts(one.expected, ("boot_variable", "boot_path_list"))}
    registers = {r for row in rows(kinds.ConfigRegister, one.text) for r in (row.now, row.next) if r}
    assert registers == set(_texts(one.expected, ("configuration_register",)))
    assert rows(kinds.BootVariable, one.text)


def _texts(tree: Any, endings: tuple[str, ...]) -> list[str]:
    """Return all texts of keys that end so, but those that say that there is none."""
    found: list[str] = []
    for key, value in tree.items() if isinstance(tree, dict) else ():
        if isinstance(value, dict):
            found += _texts(value, endings)
        elif key.endswith(endings) and value not in {None, "does not exist"}:
            found.append(value)
    return found


def _install(one: Capture) -> None:
    found = [(r.location, r.type, r.state, r.version) for r in rows(kinds.InstalledPackage, one.text)]
    told = [
        (place, package["type"], package["state"], package["filename_version"])
        for place, units in one.expected["location"].items()
        for package in units["pkg_state"].values()
    ]
    assert found == told


def _redundancy_states(one: Capture) -> None:
    found = first(kinds.RedundancyState, one.text)
    told = [one.expected[name].partition("-")[2].strip() for name in ("my_state", "peer_state")]
    assert [found.mine, found.peer, found.mode] == [*told, one.expected["mode"]]


def _differences(one: Capture) -> None:
    assert [f"{row.sign}{row.line}" for row in rows(kinds.ConfigDifference, one.text)] == one.expected["diff"]


def _archive(one: Capture) -> None:
    """Read by ours, for ntc-templates lacks a line; a device without an archive gives the sentence that says so."""
    newest = [row.path for row in rows(kinds.ArchiveEntry, one.text) if row.newest]
    told = one.expected["archive"]
    assert newest == ([told["most_recent_file"]] if "error" not in told else [])
    assert told.get("error", "The maximum archive configurations allowed is ") in one.text


def _copy(one: Capture) -> None:
    """Result or error, as expected where there is an expected file."""
    found = last(kinds.CopyResult, one.text)
    told = one.expected
    if told is None:
        assert found is not None
        return
    assert (found.size_bytes if found else None) == told["bytes"]
    reasons = [row.reason for row in rows(kinds.CopyError, one.text)]
    assert told["error"] in (reasons if told["result"] == "error" else [None])
    assert bool(reasons) == ("%Error" in one.text)


def _script(one: Capture) -> None:
    """A scripted dialogue in YAML, which indents the device's text: results and questions in it are read."""
    text = "\n".join(line.strip() for line in one.text.splitlines())
    assert len(rows(kinds.CopyResult, text)) == text.count(" bytes copied in ") > 0
    assert len(rows(kinds.CopyError, text)) == len(re.findall(r"%Error opening", text))


def _copy_missing(one: Capture) -> None:
    """`copy /verify` of a missing file: no result, a reason, and no word for the signature."""
    assert rows(kinds.CopyResult, one.text) == rows(kinds.SignatureVerified, one.text) == ()
    assert first(kinds.CopyError, one.text).reason == "No such file or directory"
    assert first(kinds.SignatureRefused, one.text) is not None


def _verify(one: Capture) -> None:
    told, found = one.expected, last(kinds.VerifyDigest, one.text)
    assert (found.digest if found else None) == told["digest"]
    error = first(kinds.VerifyError, one.text)
    assert (error.reason if error else None) == told["error"]
    assert bool(rows(kinds.SignatureVerified, one.text)) == (told["algorithm"] == "embedded")


def _configuration(one: Capture) -> None:
    """The `ip tcp` lines of the first column, and nothing else; also where there was none, and one is set."""
    for text in (one.text, f"{one.text}\nip tcp window-size 65536\ninterface Tunnel0\n ip tcp adjust-mss 1360\n"):
        found = [row.keyword for row in rows(kinds.IpTcp, text)]
        assert found == re.findall(r"(?m)^ip tcp (\S+)", text)
    assert "window-size" in found


def _boot_system(one: Capture) -> None:
    assert boot_lines(one.text.splitlines()) == ("boot system flash other_image",)


def _ntc(one: Capture) -> None:
    """By ntc-templates, equal to its own expectation."""
    command = one.path.parent.name.replace("_", " ")
    told = yaml.safe_load(one.path.with_suffix(".yml").read_text())["parsed_sample"]
    assert parse_output(platform="cisco_ios", command=command, data=one.text) == told


def _interfaces(one: Capture) -> None:
    found = parse_output(platform="cisco_ios", command="show ip interface brief", data=one.text)
    assert len(found) == len(re.findall(r"(?m) YES ", one.text)) > 0


def _dialogue(one: Capture) -> None:
    """A console dialogue, put together again: each `verify`, `dir` and `ip tcp` line in it is read."""
    text = "".join(turn["recv"] or "" for turn in json.loads(one.text))
    read = {
        kinds.VerifyDigest: text.count(") = "),
        kinds.VerifyError: text.count("%Error computing"),
        kinds.DirTotals: text.count(" bytes free)"),
        kinds.DirError: text.count("%Error opening"),
        kinds.IpTcp: len(re.findall(r"(?m)^ip tcp ", text)),
    }
    assert {kind: len(rows(kind, text)) for kind in read} == read
    assert any(read.values())


def refused(why: str) -> Callable[[Capture], None]:
    """Return a check that nothing in a capture is taken for an answer we act on."""
    acted_on = (kinds.CopyResult, kinds.VerifyDigest, kinds.DirTotals, kinds.IpTcp, kinds.SignatureVerified)

    def check(one: Capture) -> None:
        assert why
        assert [kind for kind in acted_on if rows(kind, one.text)] == []

    return check


def _empty(one: Capture) -> None:
    """Nothing is read into nothing."""
    assert one.text.strip() == ""
    assert row_kinds()
    assert [kind for kind in row_kinds() if rows(kind, one.text)] == []


RULES: tuple[tuple[str, Callable[[Capture], None]], ...] = (
    ("*/empty/*", _empty),
    ("pyntc/send_command__c*", _empty),
    ("pyntc/send_command__no_boot_system", _empty),
    ("napalm/*/empty_show_hosts/show_hosts.txt", _empty),
    ("genieparser/*/Dir/*", _dir),
    ("genielibs/filetransferutils/raw2.txt", _dir_alone),
    ("genieparser/*/ShowFileSystems/*", _file_systems),
    ("genieparser/*/ShowVersion/*", _version),
    ("napalm/*/show_version.txt", _version_alone),
    ("pyntc/*show_version*", _version_alone),
    ("cisshgo/*show_version.txt", _version_alone),
    ("genieparser/*/ShowBoot/*", _boot),
    ("genieparser/*/ShowBootSystem/*", _boot),
    ("genieparser/*/ShowBootvar/*", _boot),
    ("genieparser/*/ShowInstallS*", _install),
    ("genieparser/*/ShowRedundancy/*", refused("`show redundancy states` tells the same in three lines")),
    ("pyntc/show_redundancy*", refused("`show redundancy states` tells the same in three lines")),
    ("genieparser/*/ShowRedundancyStates/*", _redundancy_states),
    ("genieparser/*/ShowArchiveConfigDifferences/*", _differences),
    ("genieparser/*/ShowArchive/*", _archive),
    ("reconstructed/copy_ftp/*", _copy),
    ("genielibs/execute_copy_noverify/*", _copy),
    ("genielibs/execute_copy_verify/00.txt", _copy),
    ("genielibs/execute_copy_verify/01.txt", _copy_missing),
    ("genielibs/filetransferutils/mock.yaml", _script),
    ("genielibs/filetransferutils/raw3*.txt", refused("a question of `delete`: `tasks.partial_file` answers it")),
    ("genielibs/filetransferutils/raw4.txt", refused("files are not renamed")),
    ("genielibs/filetransferutils/raw5.txt", refused("no output is written to a file")),
    ("genielibs/filetransferutils/raw*.txt", _copy),
    ("unicon.plugins/*", _script),
    ("reconstructed/verify/*", _verify),
    ("batfish/*", _configuration),
    ("cisshgo/*running-config.txt", _configuration),
    ("napalm/*_config.txt", _configuration),
    ("pyntc/send_command__show_run*", _boot_system),
    ("napalm/*/show_ip_interface_brief.txt", _interfaces),
    ("scrapli_transfer_utils/test_check_device_file_*1.transcript.json", _dialogue),
    ("scrapli_transfer_utils/test_ensure_transfer_capability_iosxe_force_false_but_config__1.*", _dialogue),
    ("scrapli_transfer_utils/test_file_transfer_*1.transcript.json", _dialogue),
    ("scrapli_transfer_utils/*", refused("a login, or a configuration without such lines")),
    ("ntc-templates/*", _ntc),
    ("napalm/*/show_hosts.txt", refused("NAPALM's own getter reads it for the domain name")),
    ("pyntc/error.txt", refused("a made-up error text")),
    ("genieparser/*/ShowIpSsh/*", refused("algorithms are settled between the SSH sides, not read")),
    ("genieparser/*/ShowPlatformHwFed*", refused("control-plane policers are not asked about")),
    (
        "genieparser/*/ShowFileDescriptorsDetail/*",
        refused("the device's own open files are not asked about"),
    ),
    ("genieparser/*/ShowBootflash/*", refused("`dir` is asked, which counts the other way round")),
    ("genieparser/*/ShowFileSys/*", refused("where a file system is mounted is not asked")),
    ("genieparser/*/ShowFileInformation/*", refused("the type of a file is not asked")),
    ("genieparser/*/ShowVersionMode/*", refused("packages of a running image are not asked about")),
    ("genieparser/*/ShowVersionRunning/*", refused("packages of a running image are not asked about")),
    (
        "genieparser/*/ShowArchiveConfigIncrementalDiffs/*",
        refused("the differences are asked, which tell both directions"),
    ),
    ("derived_tcb/*", refused("the server's own socket tells more, and costs no session")),
    ("genieparser/*/ShowBgpNeighbors/*", refused("routing is not asked about")),
    ("genieparser/*/ShowTcpBriefNumeric/*", refused("the server's own socket tells more, and costs no session")),
    ("genielibs/configure_replace/*", refused("a script of prompts for another tool; we replace no configuration")),
    ("genielibs/execute_install_*", refused("activating an image is not our job")),
    ("CiscoUpgrade/README.md", refused("a whole day's log in prose, with many commands")),
)


def captures() -> list[str]:
    """Return the names of all outputs; expectations, arguments, licences and the index are none."""
    beside = (".expected.json", ".arguments.json", ".yml", "expected_result.json", "INDEX.md")
    if not CAPTURES.is_dir():
        return []
    found = (path for path in CAPTURES.rglob("*") if path.is_file() and "LICENSES" not in path.parts)
    return sorted(str(path.relative_to(CAPTURES)) for path in found if not path.name.endswith(beside))


@pytest.mark.skipif(not CAPTURES.is_dir(), reason=f"no captures at {CAPTURES}; set FLASHFERRY_CAPTURES")
@pytest.mark.parametrize("name", captures() or ["none"])
def test_every_capture_is_read_or_refused(name):
    """The first rule that fits a capture's name reads it as expected, or refuses it for a reason."""
    rule = next((check for pattern, check in RULES if fnmatch(name, pattern)), None)
    assert rule is not None, f"{name}: neither a template nor a reason to refuse it"
    rule(Capture(CAPTURES / name))
