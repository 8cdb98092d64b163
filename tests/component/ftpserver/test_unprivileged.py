"""The server without privileges: it goes on with what the kernel grants, and says so once."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.patience import PATIENCE_S
from tests.some import some

pytestmark = pytest.mark.soak

# What is gone from the bounding set is gone for root too with the next exec, here that of the server's process
# (capabilities(7)). Another user would not do: it may not be able to read this checkout or its Python.
_SCRIPT = """
    import ctypes, ftplib, json, os, sys
    from pathlib import Path
    from flashferry.fileserver import FileServer, SenderProfile, ServerSettings, TicketRequest
    from ftpserver import ftp_listener
    PR_CAPBSET_DROP, LAST_CAPABILITY = 24, int(Path("/proc/sys/kernel/cap_last_cap").read_text())
    for capability in range(LAST_CAPABILITY + 1) if os.geteuid() == 0 else ():
        assert ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0
    profile = SenderProfile(congestion_control=sys.argv[2], cap_bytes_per_s=50_000_000, dscp=8)
    listeners = (ftp_listener(listen_address="127.0.0.1"),)
    settings = ServerSettings(image_paths=(Path(sys.argv[1]),), listeners=listeners, profile=profile)
    senders = []
    with FileServer(settings) as server:
        for _ in range(2):
            ticket = server.issue_ticket(TicketRequest(image_name="image.bin"))
            with ftplib.FTP() as client:
                client.connect("127.0.0.1", server.port, timeout=120)
                client.login(ticket.username, ticket.password)
                client.retrbinary("RETR image.bin", lambda _: None)
            senders.append(server.wait_final(ticket.ticket_id, 120).record.to_json()["sender"])
        rights = Path(f"/proc/{server.pid}/status").read_text().partition("CapEff:")[2].split()[0]
        granted = {grant.name: grant.reason for grant in server.capabilities.congestion_controls}
        print(json.dumps({"senders": senders, "notices": server.notices, "granted": granted, "rights": rights}))
"""


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "image.bin"
    path.write_bytes(os.urandom(100_000))
    return path


def _refused_to_anybody() -> str:
    """Return a congestion control of ours that this kernel has and grants to root only."""
    settings = Path("/proc/sys/net/ipv4")
    allowed = (settings / "tcp_allowed_congestion_control").read_text(encoding="ascii").split()
    available = (settings / "tcp_available_congestion_control").read_text(encoding="ascii").split()
    ours = [name for name in ("bbr", "cubic") if name in available and name not in allowed]
    if not ours:
        pytest.skip(f"every congestion control of ours is allowed to anybody here: {', '.join(allowed)}")
    return ours[0]


def _served_unprivileged(image: Path, congestion_control: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-P", "-c", textwrap.dedent(_SCRIPT), str(image), congestion_control],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_congestion_control_that_is_refused_is_done_without(image: Path) -> None:
    """EPERM leads to the next best that is granted; what was asked, refused and is in force stands in the record."""
    asked = _refused_to_anybody()
    told = _served_unprivileged(image, asked)
    refusal = f"{asked} is not in net.ipv4.tcp_allowed_congestion_control"
    assert int(told["rights"], 16) == 0
    assert told["granted"][asked] == refusal
    for sender in some(told["senders"]):
        assert sender["congestion_control_asked"] == sender["congestion_control_chosen"] == asked
        assert sender["congestion_control"] != asked
        assert sender["congestion_control"] in told["granted"]
        assert refusal in sender["reason"]
    about_it = [notice for notice in told["notices"] if refusal in notice]
    assert about_it == [f"congestion control: {refusal}; going on with what is granted"]


def test_pacing_and_marks_need_no_privileges(image: Path) -> None:
    """A cap is in force for an unprivileged server as it is for root."""
    (sender, _) = _served_unprivileged(image, "system")["senders"]
    assert sender["cap_bytes_per_s"] == sender["cap_asked_bytes_per_s"] == 50_000_000
