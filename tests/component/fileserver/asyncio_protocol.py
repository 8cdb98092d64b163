"""A protocol as small as can be that needs asyncio, which a serving process of a test loads.

A client sends lines; the answer to each is the line again, half of it at once and half of it by a timer of the loop.
"""

import asyncio
import contextlib
import socket
from collections.abc import Mapping

from flashferry.fileserver.protocol import ServingContext


class Echo:
    """The protocol on one socket."""

    NEEDS_ASYNCIO = True

    def __init__(self, listening: socket.socket, context: ServingContext, options: Mapping[str, object]) -> None:
        self._context = context
        self._clients: set[asyncio.StreamWriter] = set()
        self._listening = listening
        self._server: asyncio.Server | None = None

    def open(self) -> None:
        self._opening = self._context.loop.asyncio.create_task(self._open())

    async def _open(self) -> None:
        self._server = await asyncio.start_server(self._serve, sock=self._listening)

    @property
    def transfers_to_come(self) -> int:
        return len(self._clients)

    def drain(self) -> None:
        assert self._server is not None
        self._server.close()

    def close(self, reason: str) -> None:
        if self._server is not None:
            self._server.close()
        for client in self._clients:
            client.write(f"{reason}\n".encode())

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._clients.add(writer)
        with contextlib.suppress(ConnectionError):
            await self._echo(reader, writer)
        self._clients.discard(writer)
        writer.close()

    async def _echo(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            if line == b"break\n":
                asyncio.get_running_loop().call_soon(_break)
            half = len(line) // 2
            writer.write(line[:half])
            self._context.loop.call_later(0.01, writer.write, line[half:])


def _break() -> None:
    raise ZeroDivisionError("broken on request")
