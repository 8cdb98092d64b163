"""What no client would say by SSH: nothing is given away, nothing breaks, and the server serves on.

FLASHFERRY_FUZZ_EXAMPLES sets how many examples each test takes.
"""

import asyncio
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncssh
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flashferry.fileserver import FileServer, FixedLogin, Limits, ServerSettings
from flashferry.sshserver import ssh_listener
from flashferry.sshserver.scp import Kind
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.soak

_SECRET = b"bytes nobody may see without asking for them rightly " * 100
_EXAMPLES = int(os.environ.get("FLASHFERRY_FUZZ_EXAMPLES", "60"))
_WORD = st.one_of(
    st.sampled_from(
        [
            "scp",
            "-f",
            "-t",
            "-v",
            "-p",
            "-vf",
            "--",
            "image.bin",
            "other.bin",
            "../image.bin",
            "/etc/passwd",
            ";",
            "&&",
            "$(id)",
            "`id`",
            "sh",
            "-c",
        ]
    ),
    st.text(max_size=20),
)
_COMMANDS = st.lists(_WORD, max_size=8).map(" ".join)
_SAID = st.lists(
    st.one_of(
        st.sampled_from([b"\0", b"\x01no\n", b"\x02no\n", b"C0644 1 x\n", b"T1 0 1 0\n"]), st.binary(max_size=40)
    ),
    max_size=12,
)
_TEXT = st.one_of(st.sampled_from([b"image.bin", b"/", b".", b"\0\0\0\1", b"../etc/passwd"]), st.binary(max_size=30))
_KINDS = st.one_of(st.sampled_from([int(kind) for kind in Kind]), st.integers(0, 255))


@st.composite
def _sftp_packets(draw: st.DrawFn) -> bytes:
    kind, number, text = draw(_KINDS), draw(st.integers(0, 2**32 - 1)), draw(_TEXT)
    rest = struct.pack(">I", len(text)) + text + draw(st.binary(max_size=16))
    length = draw(st.one_of(st.just(5 + len(rest)), st.just(5 + len(rest)), st.integers(0, 2**32 - 1)))
    return struct.pack(">IBI", length, kind, number) + rest


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FileServer]:
    image: Path = tmp_path_factory.mktemp("images") / "image.bin"
    image.write_bytes(_SECRET)
    listener = ssh_listener(host_keys=tmp_path_factory.mktemp("state") / "keys", listen_address="127.0.0.1")
    limits = Limits(failed_login_delay_s=0.001, failed_logins=10**9, login_deadline_s=5, idle_s=5)
    with FileServer(ServerSettings(image_paths=(image,), listeners=(listener,), limits=limits)) as running:
        running.admit(FixedLogin(username="lab", password="Bench-2026.word"))
        yield running
        assert running.gone == ""
        assert not [note for note in running.notices if "internal error" in note], running.notices


async def _answer(server: FileServer, said: bytes, **request: Any) -> bytes:
    """Ask for a session, say something, and return what comes until the server ends it."""
    got = bytearray()
    async with await asyncssh.connect(
        "127.0.0.1",
        server.port,
        username="lab",
        password="Bench-2026.word",
        known_hosts=None,
        config=None,
        client_keys=None,
    ) as connection:
        try:
            process = await connection.create_process(encoding=None, **request)
        except (asyncssh.Error, OSError):
            return b""
        try:
            process.stdin.write(said)
            process.stdin.write_eof()
            async with asyncio.timeout(PATIENCE_S):
                while piece := await process.stdout.read(65536):
                    got += piece
        except (asyncssh.Error, OSError):
            pass
    return bytes(got)


def _fuzz(test: Any) -> Any:
    return settings(max_examples=_EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])(
        test
    )


@_fuzz
@given(command=_COMMANDS, said=_SAID)
def test_no_exec_does_harm(server: FileServer, command: str, said: list[bytes]) -> None:
    """Whatever is to be run: the image goes out to a sink that asked for it and said so twice, and nothing else."""
    got = asyncio.run(_answer(server, b"".join(said), command=command))
    assert got == b"" or got[:1] in (b"C", b"\x01"), got[:200]
    if _SECRET[:50] in got:
        assert "image.bin" in command
        assert b"".join(said).count(b"\0") >= 2
    assert b"root:" not in got


@_fuzz
@given(said=_SAID)
def test_no_answer_of_a_sink_does_harm(server: FileServer, said: list[bytes]) -> None:
    """Whatever a sink says: first the header, then the file, or the end."""
    got = asyncio.run(_answer(server, b"".join(said), command="scp -f image.bin"))
    header = f"C0644 {len(_SECRET)} image.bin\n".encode()
    assert got == b"" or got.startswith((header, b"\x01scp: "))
    assert (header + _SECRET + b"\0").startswith(got) or got.startswith(b"\x01scp: ")


@_fuzz
@given(packets=st.lists(_sftp_packets(), max_size=10), greets=st.booleans())
def test_no_request_of_sftp_does_harm(server: FileServer, packets: list[bytes], greets: bool) -> None:
    """Whatever is asked: answers are whole packets of known kinds, and the image goes to whom opened it."""
    said = (struct.pack(">IBI", 5, 1, 3) if greets else b"") + b"".join(packets)
    got = asyncio.run(_answer(server, said, subsystem="sftp"))
    while got:
        (length,) = struct.unpack(">I", got[:4])
        assert len(got) >= 4 + length
        assert got[4] in (2, 101, 102, 103, 104, 105)
        got = got[4 + length :]


@_fuzz
@given(said=st.lists(st.binary(max_size=400), max_size=5), greets=st.booleans())
def test_no_bytes_before_the_login_do_harm(server: FileServer, said: list[bytes], greets: bool) -> None:
    """Of no protocol at all, with a version of SSH before them or without."""

    async def say() -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write((b"SSH-2.0-fuzz\r\n" if greets else b"") + b"".join(said))
        writer.write_eof()
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await reader.read()
        except ConnectionError:
            return b"SSH-"
        finally:
            writer.close()

    got = asyncio.run(say())
    assert got.startswith(b"SSH-")
    assert _SECRET[:20] not in got
