"""Clients that are not ours: whatever of them is installed fetches, resumes, and tries all modes."""

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flashferry.fileserver import TransferState
from tests.needs import lacking
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.soak

if TYPE_CHECKING:
    from conftest import Bench


def _run(*command: str) -> "subprocess.CompletedProcess[bytes]":
    if shutil.which(command[0]) is None:
        lacking(f"{command[0]} is not installed")
    return subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=False)


@pytest.mark.parametrize(
    "options",
    [(), ("--disable-epsv",), ("--ftp-port", "127.0.0.1"), ("--ftp-port", "127.0.0.1", "--disable-eprt")],
    ids=["EPSV", "PASV", "EPRT", "PORT"],
)
def test_curl_fetches_in_all_modes(bench: "Bench", tmp_path: Path, options: tuple[str, ...]) -> None:
    """Curl gets the image in each of the four modes and is content with the end."""
    ticket = bench.ticket()
    target = tmp_path / "out.bin"
    url = f"ftp://{ticket.username}:{ticket.password}@127.0.0.1:{bench.server.port}/{bench.image_name}"
    done = _run("curl", "-sS", *options, "-o", str(target), url)
    assert done.returncode == 0, done.stderr
    assert target.read_bytes() == bench.content
    assert bench.final(ticket).state is TransferState.DELIVERED


def test_curl_resumes(bench: "Bench", tmp_path: Path) -> None:
    """Curl continues a partial file to the whole image."""
    ticket = bench.ticket()
    target = tmp_path / "out.bin"
    target.write_bytes(bench.content[:123_456])
    url = f"ftp://{ticket.username}:{ticket.password}@127.0.0.1:{bench.server.port}/{bench.image_name}"
    done = _run("curl", "-sS", "-C", "-", "-o", str(target), url)
    assert done.returncode == 0, done.stderr
    assert target.read_bytes() == bench.content


def test_wget_fetches(bench: "Bench", tmp_path: Path) -> None:
    """Wget gets the image by PASV without a directory listing."""
    ticket = bench.ticket()
    target = tmp_path / "out.bin"
    url = f"ftp://{ticket.username}:{ticket.password}@127.0.0.1:{bench.server.port}/{bench.image_name}"
    done = _run("wget", "-q", "-O", str(target), url)
    assert done.returncode == 0, done.stderr
    assert target.read_bytes() == bench.content


def test_curl_is_told_that_a_ticket_is_used_up(bench: "Bench") -> None:
    """A second fetch with the same credentials is a failed login to curl (exit code 67)."""
    ticket = bench.ticket()
    url = f"ftp://{ticket.username}:{ticket.password}@127.0.0.1:{bench.server.port}/{bench.image_name}"
    assert _run("curl", "-sS", "-o", "/dev/null", url).returncode == 0
    assert _run("curl", "-sS", "-o", "/dev/null", url).returncode == 67
