"""The router's copy is a real one: bytes over sockets, and it ends when its session does."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import socket
import sys
import termios
from collections.abc import AsyncIterator, Callable

import pytest

from tests.adversary.router.copying import Copy, Goal
from tests.adversary.router.ftp import LEAST_BUFFER_BYTES, FtpError, Source, connected
from tests.adversary.router.storage import Owner
from tests.adversary.test_router import device
from tests.patience import PATIENCE_S

ADDRESS = "127.0.0.1"
IMAGE = os.urandom(120_000)


class Server:
    """An FTP server of a few lines; `password` is what it takes."""

    def __init__(self, password: str = "p2") -> None:
        self._password = password

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        def reply(text: str) -> None:
            writer.write(f"{text}\r\n".encode())

        listeners: list[asyncio.Server] = []
        try:
            await self._answer(reader, reply, listeners)
        finally:
            for one in listeners:
                one.close()
            writer.close()

    async def _answer(
        self, reader: asyncio.StreamReader, reply: Callable[[str], None], listeners: list[asyncio.Server]
    ) -> None:
        reply("220 hello")
        while line := (await reader.readline()).decode().strip():
            verb, _, argument = line.partition(" ")
            if verb == "PASV":
                listeners.append(data := await asyncio.start_server(self._send, ADDRESS, 0))
                port = data.sockets[0].getsockname()[1]
                reply(f"227 Entering Passive Mode (127,0,0,1,{port // 256},{port % 256})")
            elif verb == "RETR":
                reply("150 here it comes" if argument == "image.bin" else "550 no such file")
                reply("226 done")
            elif verb == "PASS":
                reply("230 in" if argument == self._password else "530 no")
            else:
                reply({"USER": "331 password", "SIZE": f"213 {len(IMAGE)}"}.get(verb, "200 yes"))

    async def _send(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            writer.write(IMAGE)
            await writer.drain()
        writer.close()


@contextlib.asynccontextmanager
async def served() -> AsyncIterator[int]:
    server = await asyncio.start_server(Server().serve, ADDRESS, 0)
    async with server:
        yield server.sockets[0].getsockname()[1]
        # The last connection's end reaches the server in the next turns of the loop.
        for _ in range(10):
            await asyncio.sleep(0)


def pull(
    *, path: str = "image.bin", password: str = "p2", until: str = "", **knobs: object
) -> tuple[bytes | None, str]:
    """Copy; return what is on flash then, and how it ended. `until` names the moment at which its session is lost."""
    router = device(flash_bytes_per_s=2_000_000, **knobs)
    flash = router.flashes[0]

    async def scene() -> str:
        async with served() as port:
            source = Source(host=ADDRESS, port=port, path=path, user="u1", password=password)
            goal = Goal(prefix="bootflash", name="image.bin", flash=flash)

            def moment(name: str) -> None:
                if name == until:
                    job.cancel()

            job = asyncio.ensure_future(Copy(router, source, goal, ADDRESS, moment, lambda _: None).run())
            try:
                await asyncio.wait_for(asyncio.shield(job), PATIENCE_S)
            except FtpError as error:
                return str(error)
            except asyncio.CancelledError:
                return "cancelled"
            return "done"

    ending = asyncio.run(scene())
    file = flash.find("image.bin")
    assert file is None or file.owner is Owner.COPY
    return (None if file is None else file.content), ending


def test_a_copy_is_the_file():
    """Byte for byte."""
    assert pull() == (IMAGE, "done")


def test_a_wrong_byte_and_a_lost_tail():
    """The copy tells no error, and the file is another one."""
    flipped, ending = pull(flips=True)
    assert ending == "done"
    assert flipped is not None
    assert (len(flipped), flipped == IMAGE) == (len(IMAGE), False)
    assert pull(loses_tail=4096) == (IMAGE[:-4096], "done")


@pytest.mark.parametrize("moment", ["copy:25", "copy:50", "copy:75"])
def test_a_copy_ends_with_its_session(moment: str):
    """It is cancelled at any moment, also one at which a piece has just come; its part vanishes, or stays."""
    assert pull(until=moment) == (None, "cancelled")
    part, ending = pull(until=moment, keeps_part=True)
    assert ending == "cancelled"
    assert part is not None
    assert IMAGE.startswith(part)
    assert 0 < len(part) < len(IMAGE)


def test_a_full_flash():
    """The copy ends with IOS's words, and what fitted is gone."""
    assert pull(room_bytes=50_000) == (None, "No space left on device")


def test_what_a_copy_in_part_does_not_read_is_not_acknowledged():
    """Else the server would have delivered a small image as a whole, and the lie could not be found."""
    share, image = 18_000, IMAGE[:60_000]

    async def unacknowledged() -> int:
        with socket.create_server((ADDRESS, 0)) as server:
            reader, writer = await connected(ADDRESS, *server.getsockname(), buffer_bytes=LEAST_BUFFER_BYTES)
            peer, _ = server.accept()
            with peer:
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * len(image))
                peer.sendall(image)
                await reader.readexactly(share)
                left = fcntl.ioctl(peer, termios.TIOCOUTQ, bytes(4))
                writer.close()
        return int.from_bytes(left, sys.byteorder)

    assert asyncio.run(unacknowledged()) > len(image) // 2


@pytest.mark.parametrize(
    ("given", "words"),
    [({"password": "wrong"}, "Incorrect Login/Password"), ({"path": "absent"}, "No such file or directory")],
)
def test_what_the_server_refuses(given: dict[str, str], words: str):
    """A wrong password and an absent file have their own words."""
    assert pull(**given) == (None, words)  # type: ignore[arg-type] # by name
