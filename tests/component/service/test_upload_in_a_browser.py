"""An upload in a real browser: broken off by a service that is killed, it goes on by itself."""

from __future__ import annotations

import hashlib
import os
import re

import pytest

from benchmarks.subjects import free_port
from flashferry.service.images.upload_sessions import SYNC_BYTES
from flashferry.service.principal import Role
from tests.browsing import browsing, cookie_of, serving, signed_in
from tests.patience import until

NAME = "cat9k_iosxe.17.12.04.SPA.bin"
_SLOW = {"offline": False, "latency": 5, "downloadThroughput": -1, "uploadThroughput": 8_000_000}


@pytest.mark.soak
def test_an_upload_goes_on_after_a_break(tmp_path):
    """Killed in the middle and started again, the service is sent the rest; the SHA-512 is the file's."""
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    content = os.urandom(5 * SYNC_BYTES)
    (tmp_path / NAME).write_bytes(content)
    with serving(state, free_port()) as service, browsing() as browser:
        cookie = cookie_of(state, Role.OPERATOR)
        with signed_in(browser, service.url, cookie) as context:
            page = context.new_page()
            network = context.new_cdp_session(page)
            network.send("Network.enable")
            network.send("Network.emulateNetworkConditions", _SLOW)
            page.goto("/images")
            page.set_input_files("#f-file", tmp_path / NAME)
            page.fill("#f-sha512", hashlib.sha512(content).hexdigest())
            page.click("#upload button")
            part = state / "images" / ".arriving" / f"{NAME}.part"
            until(
                lambda: part.exists() and part.stat().st_size >= 2 * SYNC_BYTES,
                lambda: page.inner_text("#upload-state"),
            )
            service.kill()
            page.locator("#upload-state", has_text="continuing in").wait_for()
            service.start()
            page.wait_for_url(re.compile(re.escape(f"/images/{NAME}") + "$"), timeout=60_000)
            assert page.inner_text(".badge") == "published"
    assert (state / "images" / NAME).read_bytes() == content
