"""`copy`, `delete` and `verify`: their dialogues, and what they really do to the flash."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.adversary.router.ftp import (
    LEAST_BUFFER_BYTES,
    RECEIVE_BUFFER_BYTES,
    FtpError,
    Source,
    opened,
    pieces,
    source_of,
)
from tests.adversary.router.knobs import CARET
from tests.adversary.router.shows import DIRT, digest_of
from tests.adversary.router.storage import File, Flash, Owner
from tests.adversary.router.terminal import HungUp

if TYPE_CHECKING:
    from tests.adversary.router.device import Device
    from tests.adversary.router.shell import Shell

_MARK_BYTES = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """Where a copy goes; `flash` is None for `null:`."""

    prefix: str
    name: str
    flash: Flash | None

    @property
    def path(self) -> str:
        """Return it as it is printed."""
        return f"{self.prefix}:{self.name}"


def goal_of(device: Device, target: str) -> Goal | None:
    """Return where a target leads, or None where it leads nowhere."""
    prefix, colon, name = target.partition(":")
    if prefix == "null" and colon:
        return Goal(prefix="null", name="", flash=None)
    flash = device.flash_of(prefix) if colon else device.flash_of("")
    if flash is None:
        return None
    return Goal(
        prefix=prefix if colon else device.platform.flash, name=name.lstrip("/") if colon else target, flash=flash
    )


class Copy:
    """A copy under way: it belongs to the device, and may outlive the session that began it.

    Args:
        device: Whose it is.
        source: Where from.
        goal: Where to.
        address: The device's own.
        moment: Told how far it is.
        mark: Shows a mark of progress, while somebody looks.
        claimed_bytes: Size of the image that is claimed, where the device lies.
    """

    def __init__(
        self,
        device: Device,
        source: Source,
        goal: Goal,
        address: str,
        moment: Callable[[str], None],
        mark: Callable[[str], None],
        claimed_bytes: int = 0,
    ) -> None:
        self._claimed_bytes = claimed_bytes
        self.copied_bytes = 0
        self.told_bytes = 0
        self.seconds = 0.0
        self._device = device
        self._source = source
        self._goal = goal
        self._address = address
        self._moment = moment
        self._mark = mark
        self._file: File | None = None

    async def run(self) -> None:
        """Pull the file.

        Raises:
            FtpError: It came to nothing.
        """
        started = time.monotonic()
        if self._claims_at == 0:
            self._claim()
            return
        try:
            async with opened(self._source, self._address) as (control, size_bytes):
                self.told_bytes = size_bytes
                buffer_bytes = RECEIVE_BUFFER_BYTES if self._claims_at is None else LEAST_BUFFER_BYTES
                async for piece in pieces(control, self._source, self._address, buffer_bytes=buffer_bytes):
                    await self._take(piece, size_bytes)
                    if self._claims_at is not None and self.copied_bytes >= self._claims_at:
                        self._claim()
                        return
        except BaseException:
            self._leave_part()
            raise
        self.seconds = time.monotonic() - started
        self._finish()

    async def _take(self, piece: bytes, size_bytes: int) -> None:
        knobs = self._device.knobs
        before, self.copied_bytes = self.copied_bytes, self.copied_bytes + len(piece)
        self._write(piece)
        await asyncio.sleep(len(piece) / knobs.flash_bytes_per_s)
        for share in (25, 50, 75):
            if before * 100 < share * size_bytes <= self.copied_bytes * 100:
                self._moment(f"copy:{share}")
        if before // _MARK_BYTES != self.copied_bytes // _MARK_BYTES:
            self._mark("!")
        if knobs.stops_at and self.copied_bytes >= knobs.stops_at * size_bytes:
            self._device.strike("FTP stops")
            await asyncio.sleep(3600)

    @property
    def _claims_at(self) -> float | None:
        """Return after how many bytes the whole image is claimed; None: not at all, or it is no image."""
        share = self._device.knobs.claims_after
        return None if share is None or not self._claimed_bytes else share * self._claimed_bytes

    def _claim(self) -> None:
        """Take no more, and have the copy look whole: nothing of the rest is on flash."""
        self._device.strike("whole by its own word")
        rest_bytes = self._claimed_bytes - self.copied_bytes
        self._write(bytes(rest_bytes))
        self.copied_bytes = self._claimed_bytes
        self.seconds = 1.0
        if self._file is not None:
            self._file.is_claimed = True

    def _write(self, piece: bytes) -> None:
        flash = self._goal.flash
        if flash is None:
            return
        if self._file is None:
            self._file = flash.put(File(self._goal.name, Owner.COPY))
        room = flash.room_bytes
        if room is not None and len(self._file.content) + len(piece) > room:
            self._device.strike("flash runs full")
            raise FtpError("No space left on device")
        self._file.content += piece

    def _finish(self) -> None:
        file, knobs = self._file, self._device.knobs
        if file is None:
            return
        if knobs.flips and file.content:
            self._device.strike("wrong byte on flash")
            middle = len(file.content) // 2
            file.content = file.content[:middle] + bytes([file.content[middle] ^ 0x40]) + file.content[middle + 1 :]
        if knobs.loses_tail:
            self._device.strike("tail lost on flash")
            file.content = file.content[: -knobs.loses_tail]

    def _leave_part(self) -> None:
        flash, file = self._goal.flash, self._file
        if flash is None or file is None:
            return
        if self._device.knobs.keeps_part:
            self._device.strike("part stays")
        elif flash.find(file.name) is file:
            flash.remove(file.name)


class CopyDialogue:
    """What `copy ftp://... target` asks and tells."""

    def __init__(self, shell: Shell, source: Source, goal: Goal, url: str) -> None:
        self._shell = shell
        self._device = shell.device
        self._terminal = shell.terminal
        self._source = source
        self._goal = goal
        self._url = url

    async def hold(self) -> None:
        """Ask, copy, tell."""
        self._shell.world.moment("copy")
        if self._device.knobs.quotes_ticket == "syslog":
            self._device.strike("ticket quoted")
            self._terminal.disturb(
                "bare", f"*Nov 21 14:07:31: %PARSER-5-CFGLOG_LOGGEDCMD: User:ferry logged command:{self._url}"
            )
        if self._goal.flash is not None and not await self._asked_for_target():
            return
        await self._shell.surprise("copy")
        await self._shell.output("copy", f"Accessing {self._shown_url('accessing')}...\n")
        if self._goal.flash is not None and not await self._asked_before_writing():
            return
        await self._copy()

    def _shown_url(self, where: str) -> str:
        """Return the URL as the device shows it: masked, unless it is in the mood to quote it."""
        url = f"{self._source.host}{'' if self._source.port == 21 else f':{self._source.port}'}/{self._source.path}"
        quotes = self._device.knobs.quotes_ticket
        if quotes == where:
            self._device.strike("ticket quoted")
            return f"ftp://{self._source.user}:{self._source.password}@{url}"
        if quotes == "wrapped" and where == "error":
            self._device.strike("ticket quoted")
            password = self._source.password
            return f"ftp://{self._source.user}:{password[:5]}\n{password[5:]}@{url}"
        return f"ftp://*:*@{url}"

    async def _asked_for_target(self) -> bool:
        knobs, goal = self._device.knobs, self._goal
        if "file prompt quiet" in self._device.printed():
            return True
        default = knobs.destination_default or goal.name
        if knobs.destination_default:
            self._device.strike("another name offered")
        asked = await self._terminal.ask("destination", f"Destination filename [{default}]? ")
        if asked.answer is None:
            return False
        name = asked.answer.strip() or default
        if name != goal.name:
            asked.effect = f"the copy goes to {goal.prefix}:{name}"
            goal = self._goal = Goal(prefix=goal.prefix, name=name, flash=goal.flash)
        assert goal.flash is not None
        present = goal.flash.find(goal.name)
        if present is None:
            return True
        self._terminal.show("%Warning:There is a file already existing with this name \n")
        over = await self._terminal.ask("overwrite", "Do you want to over write? [confirm]", by_key=True)
        if over.answer not in {"", "y", "Y"}:
            return False
        over.effect = f"{present.owner.value}'s file {goal.path} is overwritten"
        goal.flash.remove(present.name)
        return True

    async def _asked_before_writing(self) -> bool:
        knobs, flash = self._device.knobs, self._goal.flash
        assert flash is not None
        if knobs.erase_asked or self._device.platform.asks_to_erase:
            if knobs.erase_asked:
                self._device.strike("erase question")
            await asyncio.sleep(0.25)
            first = await self._terminal.ask(
                "erase", f"Erase {self._goal.prefix}: before copying? [confirm]", by_key=True
            )
            if first.answer is None:
                return False
            if first.answer in {"", "y", "Y"} and not await self._asked_to_erase_all(first.answer):
                return False
        if knobs.not_executable:
            self._device.strike("not executable")
            self._terminal.show("%Warning: File not a valid executable for this system\n")
            abort = await self._terminal.ask("not executable", "Abort Copy? [confirm]", by_key=True)
            if abort.answer != "n":
                return False
        return True

    async def _asked_to_erase_all(self, answer: str) -> bool:
        flash = self._goal.flash
        assert flash is not None
        sure = await self._terminal.ask(
            "erase all",
            f"Erasing the {self._goal.prefix} filesystem will remove all files! Continue? [confirm]",
            by_key=True,
        )
        if sure.answer not in {"", "y", "Y"}:
            return False
        sure.effect = f"everything on {flash.name} is erased (first answer {answer!r})"
        flash.erase()
        self._terminal.show("Erasing device... eeeeeeee ...erased\nErase of flash: complete\n")
        return True

    async def _copy(self) -> None:
        device, terminal = self._device, self._terminal
        if device.platform.shows_loading:
            terminal.show(f"Loading {self._source.path} ")

        def mark(text: str) -> None:
            with contextlib.suppress(HungUp):
                terminal.show(text)

        world = self._shell.world
        claimed_bytes = len(world.images.get(self._source.path.rpartition("/")[2], b""))
        copy = Copy(device, self._source, self._goal, world.address, world.moment, mark, claimed_bytes)
        job = asyncio.ensure_future(copy.run())
        self._shell.world.keep(job)
        if device.knobs.early_result:
            await self._tell_early(copy, job)
            return
        await self._shell.surprise("copying")
        waiting = {job, asyncio.ensure_future(terminal.broken_off.wait())}
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waiting - {job}:
                one.cancel()
        if not job.done():
            await self._broken_off(job)
            return
        self._tell_end(copy, job)

    async def _tell_early(self, copy: Copy, job: asyncio.Future[None]) -> None:
        """Tell the result before there is one."""
        while not copy.told_bytes and not job.done():
            await asyncio.sleep(0.02)
        self._device.strike("result before the data")
        self._terminal.show(
            f"!\n[OK - {copy.told_bytes}/4096 bytes]\n\n{copy.told_bytes} bytes copied in 0.731 secs (1 bytes/sec)\n"
        )

    async def _broken_off(self, job: asyncio.Future[None]) -> None:
        if self._terminal.is_gone:
            if self._device.knobs.copy_survives:
                self._device.strike("copy outlives its session")
                raise HungUp
            job.cancel()
            raise HungUp
        job.cancel()
        with contextlib.suppress(asyncio.CancelledError, FtpError):
            await job
        self._terminal.show(f"\n%Error copying {self._shown_url('error')} (Undefined error)\n")

    def _tell_end(self, copy: Copy, job: asyncio.Future[None]) -> None:
        terminal, knobs = self._terminal, self._device.knobs
        try:
            job.result()
        except FtpError as error:
            dirt = DIRT if "errors" in knobs.dirty else ""
            verb = "copying" if "space" in str(error) else "opening" if not copy.copied_bytes else "reading"
            terminal.show(f"\n%Error {verb} {self._shown_url('error')} ({error}{dirt})\n")
            return
        if knobs.fails_with:
            self._device.strike("copy fails in the end")
            dirt = DIRT if "errors" in knobs.dirty else ""
            if dirt:
                self._device.strike("control characters")
            terminal.show(f"\n%Error copying {self._shown_url('error')} ({knobs.fails_with}{dirt})\n")
            return
        rate = round(copy.copied_bytes / max(copy.seconds, 0.001))
        terminal.show(
            f"!\n[OK - {copy.copied_bytes}/4096 bytes]\n\n"
            f"{copy.copied_bytes} bytes copied in {copy.seconds:.3f} secs ({rate} bytes/sec)\n"
        )
        self._shell.world.moment("copied")


async def copy(shell: Shell, command: str) -> str:
    """Hold the dialogue of a `copy` command; return what is said where there is none."""
    words = command.split()
    source = source_of(words[1])
    if source is None:
        return _copy_of_file(shell, words[1], words[2])
    goal = goal_of(shell.device, words[2])
    if goal is None:
        return f"%Error opening {words[2]} (Invalid argument)\n"
    if "@" in words[1]:
        shell.world.tickets.add((source.user, source.password))
    if shell.device.knobs.quotes_ticket == "refusal":
        shell.device.strike("ticket quoted")
        return f"% Bad IP address or host name for user {source.user} with password {source.password}\n"
    await CopyDialogue(shell, source, goal, words[1]).hold()
    return ""


def _copy_of_file(shell: Shell, path: str, target: str) -> str:
    if target == "startup-config":
        shell.device.written.append(f"copy {path} {target}")
        return "[OK]\n"
    if path == "running-config" or goal_of(shell.device, path) is None:
        return CARET
    return f"%Error opening {path} (No such file or directory)\n"


def _asked_about(device: Device, goal: Goal, name: str) -> tuple[Goal, str]:
    """Return what `delete` is about, and how it is printed; another file system where the device confuses them."""
    if elsewhere := device.knobs.deletes_elsewhere:
        device.strike("delete asks about elsewhere")
        return Goal(prefix=elsewhere, name=name, flash=device.flash_of(elsewhere)), f"{elsewhere}:/{name}"
    assert goal.flash is not None
    return goal, f"{device.shown_as(goal.flash)}:/{name}"


async def delete(shell: Shell, command: str) -> str:
    """Hold the dialogue of `delete`."""
    words = command.split()
    goal = goal_of(shell.device, words[-1])
    if goal is None or goal.flash is None or len(words) != 2:
        return CARET
    await shell.surprise("delete")
    named = await shell.terminal.ask("delete name", f"Delete filename [{goal.name}]? ")
    if named.answer is None:
        return ""
    name = named.answer.strip() or goal.name
    goal, shown = _asked_about(shell.device, goal, name)
    sure = await shell.terminal.ask("delete", f"Delete {shown}? [confirm]", by_key=True)
    if sure.answer not in {"", "y", "Y"}:
        return "Delete of " + shown + " aborted!\n"
    if shell.device.knobs.deletes_elsewhere:
        sure.effect = f"{shown} is deleted, on a file system that was not asked for"
    file = goal.flash.find(name) if goal.flash is not None else None
    if goal.flash is None or file is None:
        return f"%Error deleting {shown} (No such file or directory)\n"
    if file.owner is not Owner.COPY:
        sure.effect = f"{file.owner.value}'s file {shown} is deleted"
    goal.flash.remove(name)
    return ""


async def verify(shell: Shell, command: str) -> str:
    """Hash a file."""
    words = command.split()
    device, knobs = shell.device, shell.device.knobs
    if len(words) < 3 or words[1] not in {"/md5", "/sha512"}:
        return CARET
    algorithm, path = words[1].lstrip("/"), words[2]
    goal = goal_of(device, path)
    prefix, _, name = path.partition(":")
    shown = f"{device.platform.flash if prefix else prefix}:{name}"
    if goal is None or goal.flash is None or goal.flash.find(goal.name) is None:
        label = {"md5": "MD5", "sha512": "SHA512"}[algorithm]
        return f"%Error computing {label} hash {shown} (No such file or directory)\n"
    shell.world.moment("verify")
    await shell.surprise("verify")
    file = goal.flash.find(goal.name)
    if file is None:
        return f"%Error computing hash {shown} (No such file or directory)\n"
    for _ in range(max(1, file.size_bytes // _MARK_BYTES) if file.nominal_bytes is None else 3):
        await shell.output("verify", ".")
        await asyncio.sleep(0.02)
    if goal.flash.find(goal.name) is None:
        return f"%Error computing hash {shown} (No such file or directory)\n"
    digest = digest_of(goal.flash, goal.name, algorithm)
    if knobs.verify_names and file.owner is Owner.COPY:
        device.strike("verify of another file")
        shown = f"{device.platform.flash}:{knobs.verify_names}"
        digest = shell.world.digest_asked_for(algorithm) or digest
    if file.is_claimed:
        digest = shell.world.digest_asked_for(algorithm) or digest
    shell.world.moment("verified")
    if len(words) > 3 and words[3].lower() != digest:
        return f"Done!\n%Error verifying {shown}\nComputed signature  = {digest}\nSubmitted signature = {words[3]}\n"
    return f"Done!\nverify /{algorithm} ({shown}) = {digest}\n\n\n"
