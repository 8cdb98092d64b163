"""Digests, signatures and the patience with a device that hashes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from flashferry.devices.dialogue import PromptWait, WaitLimits
from flashferry.devices.errors import DeviceRefused, HashStopped, ImageCorrupt, OutputNotUnderstood
from flashferry.devices.platforms.ios import IOS_XE
from flashferry.images.image import Digests
from tasks.verify import Dots, Signature, commands_for, digest_of, hash_limits, read_signature, verify_image

CAPTURES = Path(__file__).parents[2] / "captures" / "verify"
GOOD, BAD = "a" * 32, "b" * 32
SIGNED = "Digital signature successfully verified in file bootflash:/x.bin\n\nSignature Verified\n"


def result(digest: str, algorithm: str = "md5") -> dict[str, str]:
    return {f"verify /{algorithm}": f"....Done!\nverify /{algorithm} (bootflash:/x.bin) = {digest}\n"}


def test_a_good_digest_is_a_report(table_device):
    """The report tells what proved the file; a hash that took no time tells no speed."""
    found = verify_image(table_device(result(GOOD)), "bootflash:x.bin", Digests(md5=GOOD.upper()), size_bytes=100)
    assert (found.algorithm, found.digest, found.md5, found.signature) == ("md5", GOOD, GOOD, None)
    assert found.hash_bytes_per_s is None


@pytest.mark.parametrize(("algorithm", "digits"), [("md5", 32), ("sha512", 128)])
def test_another_digest_is_a_corrupt_image(table_device, algorithm, digits):
    """Expected and computed digest stand in the error, and nobody should boot from that file."""
    expected = Digests(md5=GOOD, sha512="a" * 128 if algorithm == "sha512" else "")
    with pytest.raises(ImageCorrupt, match="a" * digits + ", the device computed " + "b" * digits) as caught:
        verify_image(table_device(result("b" * digits, algorithm)), "bootflash:x.bin", expected, size_bytes=100)
    assert "do not boot" in caught.value.hint


def test_the_speed_of_a_hash_that_took_a_while(table_device, monkeypatch):
    """Two seconds for eight megabytes are four megabytes a second."""
    now_s = [10.0]
    monkeypatch.setattr("flashferry.devices.dialogue.time", SimpleNamespace(monotonic=lambda: now_s[0]))

    class Busy(type(table_device({}))):
        def converse(self, command, dialogue, on_wait):
            super().converse(command, dialogue, on_wait)
            now_s[0] += 2

    found = verify_image(Busy(result(GOOD)), "bootflash:x.bin", Digests(md5=GOOD), size_bytes=8_000_000)
    assert (found.duration_s, found.hash_bytes_per_s) == (2.0, 4_000_000)


def test_the_expected_digest_is_never_sent(table_device):
    """What the device would echo proves nothing, so it is never told what we expect."""
    device = table_device(result(GOOD))
    verify_image(device, "bootflash:x.bin", Digests(md5=GOOD), size_bytes=100)
    assert device.asked == ["verify /md5 bootflash:x.bin"]


@pytest.mark.parametrize("sha512", ["", "a" * 128])
@pytest.mark.parametrize("signature", [False, True])
def test_what_a_dry_run_tells_is_what_is_sent(table_device, sha512, signature):
    """The very commands: by SHA-512 where it is known, and the signature behind it where that was asked for."""
    expected = Digests(md5=GOOD, sha512=sha512)
    answers = result("a" * 128, "sha512") | result(GOOD) | {"verify bootflash:x.bin": SIGNED}
    device = table_device(answers)
    verify_image(device, "bootflash:x.bin", expected, size_bytes=100, signature=signature)
    assert tuple(device.asked) == commands_for("bootflash:x.bin", expected, IOS_XE, signature=signature)
    assert len(device.asked) == 1 + signature


@pytest.mark.parametrize(
    "told",
    [
        f"verify /md5 (bootflash:other.bin) = {GOOD}",
        f"verify /md5 (usb0:x.bin) = {GOOD}",
        f"verify /md5 (flash-2:x.bin) = {GOOD}",
        f"Computed signature  = {GOOD}",
    ],
)
def test_the_digest_of_another_file_proves_nothing(table_device, told):
    """The right digest under another name, or on another device, is not that of our file."""
    with pytest.raises(OutputNotUnderstood, match=r"expected a digest of bootflash:x\.bin, found one of"):
        verify_image(
            table_device({"verify": f"....Done!\n{told}\n"}), "bootflash:x.bin", Digests(md5=GOOD), size_bytes=100
        )


def test_the_digest_of_our_file_is_found_beside_anothers(table_device):
    """Somebody else's may run into our output; an alias of the file system is the same device."""
    told = f"verify /md5 (bootflash:other.bin) = {'0' * 32}\nverify /md5 (flash:/x.bin) = {GOOD}\n"
    found = verify_image(table_device({"verify": told}), "bootflash:x.bin", Digests(md5=GOOD), size_bytes=100)
    assert found.digest == GOOD


def test_a_missing_file_is_refused(table_device):
    """The device's reason is the error."""
    told = {"verify": (CAPTURES / "md5_missing_file.txt").read_text()}
    with pytest.raises(DeviceRefused, match="No such file or directory"):
        digest_of(table_device(told), "bootflash:x.bin", size_bytes=100)


def test_a_refused_command_keeps_its_words(table_device):
    """A device that knows neither hash says so, and that is the error."""
    with pytest.raises(DeviceRefused, match="Invalid input"):
        verify_image(table_device({}), "bootflash:x.bin", Digests(md5=GOOD, sha512="a" * 128), size_bytes=100)


def test_an_answer_without_a_digest_is_not_understood(table_device):
    """No digest, no error, no refusal: nothing is guessed."""
    with pytest.raises(OutputNotUnderstood, match="expected a digest"):
        digest_of(table_device({"verify": "Done!\n"}), "bootflash:x.bin", size_bytes=100)


def test_a_signature_is_verified_on_request(table_device):
    """Digest first, then the device's own word on the signature."""
    device = table_device(result(GOOD) | {"verify bootflash:x.bin": SIGNED})
    found = verify_image(device, "bootflash:x.bin", Digests(md5=GOOD), size_bytes=100, signature=True)
    assert found.signature.outcome is Signature.VERIFIED


def test_a_bad_signature_is_a_corrupt_image(table_device):
    """A right hash does not outweigh a signature that the device does not accept."""
    told = result(GOOD) | {"verify bootflash:x.bin": "%ERROR: Not able to process Signature in bootflash:/x.bin.\n"}
    with pytest.raises(ImageCorrupt, match="Not able to process Signature"):
        verify_image(table_device(told), "bootflash:x.bin", Digests(md5=GOOD), size_bytes=100, signature=True)


def test_silence_on_the_signature_is_no_success(table_device):
    """Output without a word on the signature is not understood."""
    told = result(GOOD) | {"verify bootflash:x.bin": "Verifying file integrity of bootflash:/x.bin.....\n"}
    with pytest.raises(OutputNotUnderstood, match="expected a result of the signature check"):
        verify_image(table_device(told), "bootflash:x.bin", Digests(md5=GOOD), size_bytes=100, signature=True)


def test_the_signature_of_a_real_image():
    """IE9300, 17.9.2: verified, and a row of 143,737 dots in front changes nothing."""
    found = read_signature(
        (CAPTURES / "plain_ok_iosxe.txt").read_text(), "sdflash:ie9k_iosxe.17.09.02.SPA.bin", IOS_XE.file_systems
    )
    assert found.outcome is Signature.VERIFIED


def test_a_real_refusal_of_a_signature():
    """IE3x00: a file that is not there has no signature."""
    found = read_signature((CAPTURES / "copy_verify_missing.log").read_text(), "flash:ie3x00.bin", IOS_XE.file_systems)
    assert (found.outcome, found.words[:40]) == (Signature.REFUSED, "%ERROR: Not able to process Signature in")


@pytest.mark.parametrize(
    ("output", "outcome"),
    [
        (SIGNED, Signature.VERIFIED),
        ("Digital signature successfully verified in file bootflash:/other.bin\n", Signature.UNKNOWN),
        ("Embedded hash verification successful.\n", Signature.HASH_ONLY),
        ("Verified flash:x.bin\n", Signature.HASH_ONLY),
        ("Verified flash:other.bin\n", Signature.UNKNOWN),
        (f"{SIGNED}%SIGNATURE-4-NOT_PRESENT: %WARNING: Signature not found\n", Signature.REFUSED),
        (f"Embedded Hash   MD5 : {GOOD}\nComputed Hash   MD5 : {BAD}\n{SIGNED}", Signature.REFUSED),
        (f"Embedded Hash   MD5 : {GOOD}\nComputed Hash   MD5 : {GOOD.upper()}\n{SIGNED}", Signature.VERIFIED),
        ("%Filesystem does not support verify operations\n", Signature.REFUSED),
        ("r1#verify flash:x.bin\n", Signature.UNKNOWN),
        ("", Signature.UNKNOWN),
    ],
)
def test_each_word_on_a_signature(output, outcome):
    """Bad words outweigh good ones; a good word on another file, or an echo, counts for nothing."""
    assert read_signature(output, "bootflash:x.bin", IOS_XE.file_systems).outcome is outcome


class Wait:
    """A hash whose device and clock the test moves."""

    def __init__(self, *, interrupted: bool = False) -> None:
        self.now_s = 0.0
        self.dots = Dots(
            prompt_pattern=r"(?m)^r1#\s*$",
            dot_bytes=IOS_XE.verifying.digest_dot_bytes,
            clock=lambda: self.now_s,
        )
        self._wait = PromptWait(
            self.dots,
            "verify /md5 flash:x",
            WaitLimits(start_s=10, silence_s=20, total_s=100, sign="dot", end="result"),
            host="r1",
            step="verify",
            interrupted=lambda: interrupted,
            stopped=HashStopped,
        )

    def hears(self, text: str, at_s: float) -> None:
        self.now_s = at_s
        self.dots.take(text)

    def looks(self, at_s: float) -> None:
        self.now_s = at_s
        self._wait.check()


def test_dots_are_counted_and_thrown_away():
    """Two hundred thousand dots in many pieces leave one behind, and tell how far the device came."""
    wait = Wait()
    for second in range(100):
        wait.hears("." * 2000, float(second))
        assert wait.dots.settles_in_s is None
    assert (wait.dots.dots, wait.dots.text) == (200_000, ".")
    assert wait.dots.bytes_hashed == 200_000 * 65_536
    wait.hears("Done!\r\nverify /md5 (flash:x) = 0\r\nr1#", 100.0)
    assert wait.dots.is_over


@pytest.mark.parametrize(
    ("heard_s", "now_s", "words"),
    [(None, 11, "no sign of life for 10 s"), (5, 26, "no dot for 20 s"), (95, 101, "no result after 100 s")],
)
def test_each_limit_has_its_own_words(heard_s, now_s, words):
    """Start, silence and total are told apart."""
    wait = Wait()
    if heard_s is not None:
        wait.hears("verify /md5 flash:x\r\n..", heard_s)
    with pytest.raises(OutputNotUnderstood, match=words):
        wait.looks(now_s)


def test_a_hash_that_asks_something_is_given_up():
    """Nothing of ours has it ask, so nothing is typed; the question stands in the sentence."""
    wait = Wait()
    wait.hears("Verify another file? [confirm]", 1)
    wait.looks(5)
    with pytest.raises(OutputNotUnderstood, match=r"asks 'Verify another file\? \[confirm\]'"):
        wait.looks(7)


def test_within_its_limits_a_device_is_left_alone():
    """No limit is reached while dots come."""
    wait = Wait()
    wait.hears("..", 90)
    wait.looks(99)
    assert wait.dots.dots == 2


def test_a_known_speed_shortens_the_patience_and_never_lengthens_it():
    """2 GB: four times what it takes at the known speed, but no longer than with the slowest device."""
    assert hash_limits(2_000_000_000, IOS_XE.defaults).total_s == 60 + 8000
    assert hash_limits(2_000_000_000, IOS_XE.defaults, 4_000_000).total_s == 60 + 2000
    assert hash_limits(2_000_000_000, IOS_XE.defaults, 10_000).total_s == 60 + 8000


def test_a_hash_that_is_stopped_is_no_limit_of_the_device():
    """The operator's stop is told as that, not as an answer that nobody understood."""
    with pytest.raises(HashStopped, match="stopped by the operator"):
        Wait(interrupted=True).looks(1.0)
