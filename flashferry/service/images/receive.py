"""Receipt of uploads and of the vendor's file of hashes from request bodies, as the bytes arrive."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from flashferry.service.errors import TooLarge, TooSlow
from flashferry.service.images import lifecycle, upload
from flashferry.service.images.lifecycle import ImportResult
from flashferry.service.images.upload_sessions import UploadSession
from flashferry.service.images.verification import MOST_PUBLISHED_BYTES
from flashferry.service.principal import Actor
from flashferry.service.service import Service
from flashferry.store.service.images import StoredImage

SILENCE_S = 60.0
"""A sender without a byte for so many seconds is gone."""
_GATHER_BYTES = 1 << 20


async def receive_published(service: Service, actor: Actor, pieces: AsyncIterator[bytes]) -> ImportResult:
    """Store the vendor's file of hashes as it arrives, and import it.

    Raises:
        TooLarge: The file is larger than any that the vendor publishes. Others as `publishing.import_published`.
    """
    with TemporaryDirectory(dir=service.state, prefix="published.") as folder:
        path = Path(folder) / "file"
        size_bytes = 0
        with path.open("xb") as file:
            async for piece in pieces:
                size_bytes += len(piece)
                if size_bytes > MOST_PUBLISHED_BYTES:
                    raise TooLarge(
                        f"published hashes: expected at most {MOST_PUBLISHED_BYTES:,} bytes, found more",
                        hint="Send the file as the vendor has it, packed",
                    )
                await run_in_threadpool(file.write, piece)
        return await run_in_threadpool(lifecycle.import_published, service, actor, path)


async def receive_upload(
    service: Service, actor: Actor, turn: UploadSession, pieces: AsyncIterator[bytes]
) -> StoredImage:
    """Write the bytes that arrive, end the session in any case, and verify the image once it is complete.

    Raises:
        TooSlow: No bytes arrived for too long. Others as `upload.take_in` and `upload.complete`.
    """
    try:
        await _written(service, turn, pieces)
    finally:
        # Also after a broken request: the bytes received before are kept.
        with anyio.CancelScope(shield=True):
            await run_in_threadpool(upload.keep, service, turn)
    if turn.is_whole:
        return await run_in_threadpool(upload.complete, service, actor, turn)
    return await run_in_threadpool(_row, service, turn.name)


async def _written(service: Service, turn: UploadSession, pieces: AsyncIterator[bytes]) -> None:
    gathered, is_silent = bytearray(), False
    try:
        while True:
            with anyio.fail_after(SILENCE_S):
                piece = await anext(pieces, None)
            if piece is None:
                break
            gathered += piece
            if len(gathered) >= _GATHER_BYTES:
                full, gathered = gathered, bytearray()
                await run_in_threadpool(upload.take_in, service, turn, full)
    except ClientDisconnect:
        # The client is gone; its bytes are kept.
        pass
    except TimeoutError:
        is_silent = True
    if gathered:
        await run_in_threadpool(upload.take_in, service, turn, gathered)
    if is_silent:
        raise TooSlow(
            f"image {turn.name}: expected more of it within {SILENCE_S:.0f} s, found nothing",
            hint="HEAD it, and continue from its Upload-Offset",
        )


def _row(service: Service, name: str) -> StoredImage:
    with service.database.reading() as database:
        return upload.found(database, name)
