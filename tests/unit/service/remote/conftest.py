"""A client whose requests are answered by a function of the test's."""

from __future__ import annotations

import httpx
import pytest

from flashferry.service.client.client import ServiceClient, ServicePlace
from tests.patience import PATIENCE_S

URL = "http://127.0.0.1:8020"


class Pieces(httpx.SyncByteStream):
    """A body that comes in two pieces, as over a network: httpx reads those of its own tests' responses beforehand."""

    def __init__(self, body):
        self.body = body

    def __iter__(self):
        half = len(self.body) // 2
        yield self.body[:half]
        yield self.body[half:]


@pytest.fixture
def asking():
    """Return what makes a client that is answered by a function; its pauses are in `paused`, and are all its time."""

    def made(answer, *, patience_s=PATIENCE_S):
        paused = []

        def sent(request):
            found = answer(request)
            if not found.is_stream_consumed:
                return found
            return httpx.Response(found.status_code, headers=found.headers, stream=Pieces(found.content))

        place = ServicePlace(url=URL, token="ffy_abc")
        client = ServiceClient(
            place,
            transport=httpx.MockTransport(sent),
            patience_s=patience_s,
            pause=paused.append,
            clock=lambda: sum(paused),
        )
        client.paused = paused
        return client

    return made
