"""Rows of device output, held against captures of real devices."""

from __future__ import annotations

import ast
import hashlib
import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from pathlib import Path

import pytest
import textfsm

import templates
from flashferry.core.values import field_names
from templates.rows import (
    ConfigDifference,
    ConfigLock,
    ConfigRegister,
    CopyError,
    CopyResult,
    DirError,
    DirFile,
    DirTotals,
    FileSystem,
    IpTcp,
    RedundancyState,
    Refusal,
    VerifyDigest,
    VerifyError,
    first,
    last,
    row_kinds,
    rows,
    template_name,
)
from tests.house.modules import source_files, tree_of

PRODUCT = Path(templates.__file__).parents[1]
CAPTURES = Path(__file__).parents[2] / "captures"


def named(folder: str) -> list[Path]:
    return sorted((CAPTURES / folder).glob("*.txt"))


def expected(path: Path) -> dict[str, object]:
    return json.loads(path.with_suffix(".expected.json").read_text())


COPIES = [path for name in ("ftp", "http", "https", "scp", "sftp") for path in named(f"copy_{name}")]


@pytest.mark.parametrize("path", COPIES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_copy_result_is_what_the_capture_says(path):
    """Bytes, seconds and rate come from the `bytes copied` line and from nowhere else."""
    wanted, found = expected(path), last(CopyResult, path.read_text())
    assert (found.size_bytes if found else None) == wanted["bytes"]
    assert (found.duration_s if found else None) == wanted["secs"]
    assert (found.rate_bytes_per_s if found else None) == wanted["bytes_per_sec"]


@pytest.mark.parametrize(
    "path", [path for path in named("copy_ftp") if "err_" in path.name], ids=lambda path: path.stem
)
def test_copy_error_is_read_with_its_subject(path):
    """An error line gives the reason and the URL that it is about."""
    (found,) = rows(CopyError, path.read_text())
    assert found.reason == expected(path)["error"]
    assert found.subject == "ftp://*:*@192.0.2.10/image-universalk9.SPA.bin"


OF_NO_BYTES = hashlib.md5(b"").hexdigest()


@pytest.mark.parametrize(
    ("capture", "wanted"),
    [
        ("md5_ok", OF_NO_BYTES),
        ("md5_expected_match", OF_NO_BYTES),
        ("md5_expected_mismatch", OF_NO_BYTES),
        ("md5_missing_file", None),
        ("plain_ok_iosxe", None),
    ],
)
def test_digest_is_the_computed_one(capture, wanted):
    """The digest is the one the device computed, never the one that was typed."""
    found = last(VerifyDigest, (CAPTURES / "verify" / f"{capture}.txt").read_text())
    assert (found.digest if found else None) == wanted


def test_digest_stands_behind_a_flood_of_dots():
    """Half a million dots in front of the result on one line change nothing."""
    output = "." * 500_000 + "Done!\nverify /md5 (flash:x) = " + "a" * 32
    assert last(VerifyDigest, output).digest == "a" * 32


def test_missing_file_is_a_verify_error():
    """A file that is not there gives a reason instead of a digest."""
    found = first(VerifyError, (CAPTURES / "verify/md5_missing_file.txt").read_text())
    assert found.reason == "No such file or directory"


@pytest.mark.parametrize(
    ("name", "files", "free_bytes"), [("iosv", 5, 1989595136), ("asr1k", 22, 1036210176), ("no_files", 0, 16626160)]
)
def test_directory_of_each_shape(name, files, free_bytes):
    """Files are counted and free bytes read, with and without zone, with and without files."""
    output = (CAPTURES / f"dir/{name}.txt").read_text()
    assert len(rows(DirFile, output)) == files
    assert first(DirTotals, output).free_bytes == free_bytes


def test_single_file_of_dir():
    """`dir flash:x` has one row with size and name."""
    output = (
        "Directory of bootflash:/x.cfg\r\n\r\n"
        "16      -rw-             6694  Apr 22 2024 09:55:24 +02:00  x.cfg\r\n\r\n"
        "6816829440 bytes total (5304422400 bytes free)\r\n"
    )
    wanted = DirFile(permissions="-rw-", size_bytes=6694, modified="Apr 22 2024 09:55:24 +02:00", name="x.cfg")
    assert rows(DirFile, output) == (wanted,)


def test_absent_file_of_dir():
    """`dir flash:x` of an absent file gives the reason."""
    found = first(DirError, "%Error opening bootflash:/x (No such file or directory)\n")
    assert found == DirError(subject="bootflash:/x", reason="No such file or directory")


def test_default_file_system_of_a_stack():
    """The row with the asterisk carries all prefixes of the active member."""
    found = rows(FileSystem, (CAPTURES / "show_file_systems/iosxe.txt").read_text())
    (default,) = [row for row in found if row.default]
    assert default.prefixes.split() == ["flash:", "bootflash:", "flash-1:"]
    assert len(found) == 24


@pytest.mark.parametrize(
    ("output", "text"),
    [
        ("                 ^\n% Invalid input detected at '^' marker.\n", "% Invalid input detected at '^' marker."),
        ("% Incomplete command.\n", "% Incomplete command."),
        ('% Ambiguous command:  "sh"\n', '% Ambiguous command:  "sh"'),
        ("Command authorization failed.\n", "Command authorization failed."),
        ("%Command authorization failed.\n", "%Command authorization failed."),
        ("% Permission denied\n", "% Permission denied"),
        ("% Not authorized\n", "% Not authorized"),
    ],
)
def test_refusals(output, text):
    """Each way in which IOS refuses a command is known as one."""
    assert first(Refusal, output).text == text


def test_a_warning_is_no_refusal():
    """`%% Warning:` with advice is how IOS accepts `ip ssh window-size`."""
    output = (
        "\n\n%% Warning: This cli may have impact on CPU. So,use only for SCP\n"
        "Please configure ip tcp window-size<> with same value,for this CLI to work\n\n"
    )
    assert rows(Refusal, output) == ()


@pytest.mark.parametrize("name", ["as1border1.cfg", "csr1000v.txt"])
def test_tcp_lines_of_real_configurations(name):
    """Only global lines count: `ip tcp adjust-mss` of an interface is none."""
    assert rows(IpTcp, (CAPTURES / "config" / name).read_text() + "\ninterface Tunnel0\n ip tcp adjust-mss 1360\n") == (
        IpTcp(negated="", keyword="synwait-time", value="5"),
    )


def test_negated_and_valueless_tcp_lines():
    """An explicit `no` and a keyword without a value are lines of their own."""
    found = rows(IpTcp, "no ip tcp selective-ack\r\nip tcp timestamp\r\nip tcp path-mtu-discovery age-timer 30\r\n")
    assert [(row.negated, row.keyword, row.value) for row in found] == [
        ("no", "selective-ack", ""),
        ("", "timestamp", ""),
        ("", "path-mtu-discovery", "age-timer 30"),
    ]


def test_no_kind_reads_anything_into_noise():
    """Empty output and a syslog line are no rows of any kind."""
    noise = "\r\n*Sep 13 09:24:43.803: %SYS-5-CONFIG_I: Configured from console by console\r\n"
    assert row_kinds()
    assert [kind for kind in row_kinds() for text in ("", noise) if rows(kind, text)] == []


def test_the_product_reads_every_kind_of_row():
    """A template that nothing uses is not known to be right."""
    packages = {PRODUCT / "tasks", PRODUCT / "flashferry"}
    sources = [path for path in source_files() if not packages.isdisjoint(path.parents)]
    trees = [tree_of(path) for path in (*sources, PRODUCT / "templates/version.py")]
    imports = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    used = {name.name for node in imports if node.module == "templates.rows" for name in node.names}
    assert {kind.__name__ for kind in row_kinds()} - used == set()


def test_every_template_and_row_class_agree():
    """Template values and fields have the same names, so that no value is lost silently."""
    templates = {path.name.removesuffix(".textfsm") for path in files("templates").iterdir() if "textfsm" in path.name}
    assert {template_name(kind) for kind in row_kinds()} == templates
    for kind in row_kinds():
        with (files("templates") / f"{template_name(kind)}.textfsm").open() as source:
            header = [name.lower() for name in textfsm.TextFSM(source).header]
        assert sorted(header) == sorted(field_names(kind))


def test_indented_differences_are_differences():
    """A line of a sub-mode stands behind blanks, its sign first; what only tells where it belongs has none."""
    output = (CAPTURES / "show_archive_config_differences/indented.txt").read_text()
    found = rows(ConfigDifference, output)
    assert Counter(row.sign for row in found) == {"+": 8, "-": 7}
    assert found[-4:] == (
        ConfigDifference(sign="-", line="archive"),
        ConfigDifference(sign="-", line="path flash:config"),
        ConfigDifference(sign="-", line="maximum 14"),
        ConfigDifference(sign="+", line="transport input ssh"),
    )


@pytest.mark.parametrize(
    ("name", "registers"),
    [
        ("c1100_two_registers", [("", "0x1", "0x2102"), ("Standby", "0x1", "0x2102")]),
        ("cat9k_register", [("", "0x102", "")]),
    ],
)
def test_registers_of_each_spelling(name, registers):
    """`Register` with a capital, and two blanks before what the standby's will be."""
    found = rows(ConfigRegister, (CAPTURES / f"show_boot/{name}.txt").read_text())
    assert [(row.standby, row.now, row.next) for row in found] == registers


@pytest.mark.parametrize(
    ("peer", "state"),
    [
        ("8  -STANDBY HOT ", "STANDBY HOT"),
        (" 8 -STANDBY HOT", "STANDBY HOT"),
        ("1  -DISABLED ", "DISABLED"),
        ("in progress to standby cold-config", "in progress to standby cold-config"),
    ],
)
def test_the_peers_state_however_it_is_spaced(peer, state):
    """The number in front of it is none of it, wherever its blanks stand."""
    output = f"       my state = 13 -ACTIVE \n     peer state = {peer}\n           Mode = Duplex\n"
    assert rows(RedundancyState, output) == (RedundancyState(mine="ACTIVE", peer=state, mode="Duplex"),)


def test_the_standby_of_a_catalyst_4500_is_hot():
    """Its peer's number stands behind two blanks."""
    found = first(RedundancyState, (CAPTURES / "show_redundancy_states/cat4500.txt").read_text())
    assert found == RedundancyState(mine="ACTIVE", peer="STANDBY HOT", mode="Duplex")


def test_every_owner_of_the_configuration_lock():
    """Owners below one heading are rows of their own, and a session lock's owner above them is none."""
    found = rows(ConfigLock, (CAPTURES / "show_configuration_lock/two_owners.txt").read_text())
    assert [(row.user, row.tty, row.state) for row in found] == [("User1", "3", "LOCKED"), ("User11", "31", "LOCKED")]


@pytest.mark.parametrize(
    ("prefixes", "names"),
    [
        ("flash: bootflash: flash-1:", ("flash:", "bootflash:", "flash-1:")),
        ("flash0: flash:#", ("flash0:", "flash:")),
        ("flash:#", ("flash:",)),
        ("flash:flash-1:", ("flash:", "flash-1:")),
        ("flash-2: stby-flash:", ("flash-2:", "stby-flash:")),
    ],
)
def test_names_of_a_file_system(prefixes, names):
    """Blanks may be missing between names, and `#` behind one says that it can be booted from."""
    (found,) = rows(FileSystem, f"*    256487424     127959040      disk     rw   {prefixes}\n")
    assert found.names == names
    assert found.default


def test_parsers_are_shared_and_keep_nothing_of_another_output() -> None:
    """Several threads parse at once, and each sees the rows of its own output alone."""
    outputs = [f"ip tcp window-size {number}\nip tcp selective-ack" for number in range(65_000, 65_040)]
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda output: rows(IpTcp, output), outputs))
    assert [[(one.keyword, one.value) for one in some] for some in found] == [
        [("window-size", output.split()[3]), ("selective-ack", "")] for output in outputs
    ]
