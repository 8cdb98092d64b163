"""Check a device without changing it: what it is, what it has, and whether it can be staged."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace
from nornir.core.task import Result, Task

from flashferry.devices.connection import session_of
from flashferry.devices.errors import ImageCorrupt
from flashferry.devices.session import DeviceSession, Facts
from flashferry.images.image import Image, ImageFile
from flashferry.images.image_platform_match import ANY_IMAGE_OPTION, Fits, ImageFit, image_fit, platform_of
from flashferry.tcp.receive_window import ASSUMED_RTT_S, choose_window
from flashferry.transports import PUSH
from flashferry.transports.transport import Transport
from flashferry.transports.transport_selection import allowed
from inventory.host_view import HostView, view
from tasks.add import OlderTrain, without_add
from tasks.applet import of_another_run
from tasks.authorization import Authorization, check_authorization, naming_level
from tasks.fetch_check import (
    Ceiling,
    absence_doubt,
    ceilings,
    doubt_hint,
    image_refusal,
    interface_refusal,
    list_files,
    network_protocols,
    overwrites_silently,
    present_file,
    protocols_refusal,
    trust_refusal,
    trusting,
    trustpoints,
    vrf_refusal,
)
from tasks.file_system import FlashSpace, MemberSpace, free_bytes, space_of_members, target_file_system
from tasks.partial_file import could_go
from tasks.read_config import (
    ConfigurationState,
    Configured,
    ask_or_empty,
    differing_lines,
    last_change,
    lock_holder,
    pending_rollback,
    read_running,
    read_startup,
    saved_by_stamps,
)
from tasks.software_state import mode_of
from tasks.step import CHECK_WORD, CostPhase, Step
from tasks.tcp_config import TcpLines
from tasks.verify import VerifyReport, hash_limits, verify_image, verify_signature
from templates.rows import ArchiveSection, ExclusiveMode, first
from templates.version import SoftwareVersion


class ProvenFile(Struct, frozen=True, kw_only=True):
    """A file that this device proved in this process.

    Attributes:
        modified: Time stamp of the file, as printed after the proof; empty if unknown.
    """

    report: VerifyReport
    modified: str

    def is_at(self, path: str, modified: str) -> bool:
        """Return whether a file of the image's size is the proven one, unchanged since."""
        return bool(modified) and (self.report.path, self.modified) == (path, modified)


class TargetImage(Struct, frozen=True, kw_only=True):
    """The image that a device is to have.

    Attributes:
        image: Its name on the device, size and digests.
        inside: The name that the file carries inside, or None.
        is_insisted: Whether it is staged even on a platform that it is not for.
        adds: Whether it is added (`install add`) after the copy, which needs its size once more.
        proven: The file as the device proved it before; None: a file of its size is hashed.
    """

    image: Image
    inside: str | None = None
    is_insisted: bool = False
    adds: bool = False
    proven: ProvenFile | None = None

    @classmethod
    def of(cls, file: ImageFile, *, is_insisted: bool = False, adds: bool = False) -> TargetImage:
        """Return a file of ours as the image that a device is to have."""
        return cls(image=file, inside=file.inside, is_insisted=is_insisted, adds=adds)


class ReturnPath(Struct, frozen=True, kw_only=True):
    """VRF and source interface by which the device reaches us; None where the inventory has none."""

    vrf: str | None = None
    source_interface: str | None = None


class Fetching(Struct, frozen=True, kw_only=True):
    """The transports that a device may use, and the bandwidth of its link for copies.

    Attributes:
        transports: The protocols, in order of preference.
        is_stated: Whether the inventory names them: then the check verifies that the device has them.
        may_be_pushed: Whether the image may be pushed: then the device need not be able to fetch.
        link_rate_bps: Bits per second of its link that copies may use, or None if unknown.
    """

    transports: tuple[Transport, ...] = ()
    is_stated: bool = False
    may_be_pushed: bool = False
    link_rate_bps: float | None = None

    @classmethod
    def of(cls, host: HostView) -> Fetching:
        """Return the values of the inventory."""
        policy = host.transport_policy
        is_stated = bool(policy.stated) or policy.clear_text is not None
        return cls(
            transports=allowed(policy),
            is_stated=is_stated,
            may_be_pushed=PUSH.name in policy.names,
            link_rate_bps=host.cap_bps,
        )


class CheckReport(Struct, frozen=True, kw_only=True):
    """The result of a check.

    Attributes:
        version: The values of `show version`.
        file_system: File system for images, for example `bootflash:`.
        free_bytes: Free space on it, or None if the device does not show it.
        running: The lines of the running configuration that staging may change.
        rtt_s: Least round-trip time of the SSH connection, or None.
        server_address: Our own address towards the device.
        already_there: Whether the image is on the device, proven by size and hash.
        refusal: Why the device must not be staged, or None.
        notes: Notes for the operator, in sentences.
        members: Free space on the other members of a stack.
        configuration: Whether the configuration is saved, locked or about to be rolled back; None if the image is
            there.
        authorization: What the user may do; None if the image is there.
        proof: How the image that is there was proven, or None.
        refusal_hint: What to do about a refusal, or None.
        image: Whether the image is for this platform; None without an image.
        trustpoints: Trusted certificate authorities that may be ours; None if not read.
        ceilings: Highest possible rate by each protocol that it may use, tuned.
        overwrites_silently: Whether the device overwrites a file without asking (`file prompt quiet`).
    """

    facts: Facts
    version: SoftwareVersion
    file_system: str
    free_bytes: int | None
    running: TcpLines
    startup: TcpLines
    rtt_s: float | None
    server_address: str
    already_there: bool
    refusal: str | None
    notes: tuple[str, ...] = ()
    members: tuple[MemberSpace, ...] = ()
    configuration: ConfigurationState | None = None
    authorization: Authorization | None = None
    proof: VerifyReport | None = None
    refusal_hint: str | None = None
    image: ImageFit | None = None
    trustpoints: tuple[str, ...] | None = None
    ceilings: tuple[Ceiling, ...] = ()
    overwrites_silently: bool = False


STEP = CHECK_WORD

CHECK = Step(
    word=STEP,
    label="we read what the device is and has, and decide whether it can be staged",
    doing="checking",
    state="checked",
    record_field="check",
    seconds=0.85,
    round_trips=20,
    stretch=CostPhase.CHECK,
    is_fatal=True,
)


def check(
    task: Task,
    target: TargetImage | None = None,
    interrupted: Callable[[], bool] = lambda: False,
    signature: bool = False,
    hashing: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Result:
    """Nornir task: return a CheckReport. See `check_device`; VRF and source interface are the inventory's."""
    host = view(task.host)
    return_path = ReturnPath(vrf=host.vrf, source_interface=host.source_interface)
    report = check_device(
        session_of(task),
        target,
        return_path=return_path,
        fetching=Fetching.of(host),
        signature=signature,
        interrupted=interrupted,
        hashing=hashing,
    )
    return Result(host=task.host, result=report)


def check_device(
    session: DeviceSession,
    target: TargetImage | None,
    *,
    return_path: ReturnPath | None = None,
    fetching: Fetching | None = None,
    signature: bool = False,
    interrupted: Callable[[], bool] = lambda: False,
    hashing: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> CheckReport:
    """Check a device without changing anything.

    Args:
        session: An open session.
        target: The image that it is to have, or None.
        return_path: VRF and source interface to use, or None for neither.
        fetching: Transports that it may use; None: not checked.
        signature: Whether the signature of an image that is already there is verified too.
        interrupted: Whether the operator stops, asked while an image is hashed.
        hashing: Held while an image is hashed: a run limits concurrent hashes.

    Raises:
        ImageCorrupt: The image that is already there has no good signature, and that was asked for.
        DeviceRefused: The session is not privileged, or a command is not authorized.
    """
    session.check_privileged(STEP)
    with naming_level(session):
        found = _DeviceCheck(session, target, return_path or ReturnPath(), fetching or Fetching(), interrupted, hashing)
        return found.report(signature=signature)


class _DeviceCheck:
    """One check of one device. Output is kept, so that nothing is asked twice."""

    def __init__(
        self,
        session: DeviceSession,
        target: TargetImage | None,
        return_path: ReturnPath,
        fetching: Fetching,
        interrupted: Callable[[], bool],
        hashing: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._session = session
        self._target = target
        self._return_path = return_path
        self._fetching = fetching
        self._interrupted = interrupted
        self._hashing = hashing
        self._platform = session.platform
        self._version = session.version
        self._file_systems: str | None = None
        self._file_system = target_file_system(session, self._version, self._show_file_systems, STEP)
        self._listing = list_files(session, self._file_system)
        self._present = (
            present_file(session, self._listing, target.image, self._file_system) if target is not None else None
        )
        self._image = self._fit()

    def report(self, *, signature: bool) -> CheckReport:
        proof = self._proof(signature=signature)
        running, startup = read_running(self._session), read_startup(self._session)
        configuration = self._configuration(running, startup) if proof is None else None
        user = self._authorization(running) if proof is None else None
        # Even if the image is there: a device that another controller's killed run left tuned is not fine.
        held = of_another_run(self._session.name, STEP, running.tcp.lines)
        refusal = held.message if held is not None else None
        if proof is None:
            refusal = refusal or self._refusal(running, configuration, user)
        return CheckReport(
            facts=self._session.facts(),
            version=self._version,
            file_system=self._file_system,
            free_bytes=free_bytes(self._listing),
            running=running.tcp,
            startup=startup.tcp,
            rtt_s=self._session.rtt_s,
            server_address=self._session.local_address,
            already_there=proof is not None and refusal is None,
            refusal=refusal,
            notes=self._notes(configuration, user, running) if proof is None else (),
            members=self._space.members if proof is None else (),
            configuration=configuration,
            authorization=user,
            proof=proof,
            refusal_hint=held.hint if held is not None else self._hint(refusal, (running.text, startup.text)),
            image=self._image,
            trustpoints=trustpoints(running.commands),
            overwrites_silently=overwrites_silently(running),
            ceilings=self._ceilings(running),
        )

    def _authorization(self, running: Configured) -> Authorization:
        asked = self._fetching.transports if self._fetching.is_stated else ()
        windows = [window for one in asked for window in one.windows(self._platform)]
        return check_authorization(
            self._session,
            running.commands,
            self._file_system,
            protocols=[one.name for one in asked],
            lines=dict.fromkeys(window.setting.command for window in windows),
        )

    def _ceilings(self, running: Configured) -> tuple[Ceiling, ...]:
        rtt_s, link = self._session.rtt_s, self._fetching.link_rate_bps
        found = ceilings(
            running.tcp,
            platform=self._platform,
            release=self._version.release,
            transports=self._fetching.transports,
            window_bytes=choose_window(rtt_s=rtt_s or ASSUMED_RTT_S, link_rate_bps=link).window_bytes,
            rtt_s=rtt_s,
            link_rate_bps=link,
        )
        return trusting(found, trustpoints(running.commands)) if self._fetching.is_stated else found

    def _show_file_systems(self) -> str:
        if self._file_systems is None:
            self._file_systems = self._session.ask(self._platform.commands.file_systems)
        return self._file_systems

    def _proof(self, *, signature: bool) -> VerifyReport | None:
        """Compare the size, then the hash: a hash takes minutes on a slow device."""
        target, present = self._target, self._present
        if target is None or present is None or present.name != target.image.name:
            return None
        if present.size_bytes != target.image.size_bytes or present.permissions.startswith("d"):
            return None
        path = f"{self._file_system}{target.image.name}"
        if target.proven is not None and target.proven.is_at(path, present.modified):
            return target.proven.report
        with self._hashing():
            return self._proof_of(target, path, signature=signature)

    def _proof_of(self, target: TargetImage, path: str, *, signature: bool) -> VerifyReport | None:
        proof = prove_present(self._session, path, target.image, self._interrupted)
        if proof is None or not signature:
            return proof
        limits = hash_limits(target.image.size_bytes, self._platform.defaults, proof.hash_bytes_per_s)
        seal = verify_signature(self._session, path, limits=limits, interrupted=self._interrupted)
        return replace(proof, signature=seal)

    @cached_property
    def _space(self) -> FlashSpace:
        return FlashSpace(
            file_system=self._file_system,
            free_bytes=free_bytes(self._listing),
            members=self._members(),
            mode=mode_of(self._version),
            adds=self._target is not None and self._target.adds and self._older_train is None,
        )

    @cached_property
    def _older_train(self) -> OlderTrain | None:
        """Return the train of a device that is to add the image but has no command that only adds."""
        if self._target is None or not self._target.adds:
            return None
        return without_add(self._version, f"{self._file_system}{self._target.image.name}")

    def _members(self) -> tuple[MemberSpace, ...]:
        if len(self._version.members) < 2:
            return ()
        return space_of_members(self._show_file_systems(), self._file_system, self._platform.file_systems)

    def _configuration(self, running: Configured, startup: Configured) -> ConfigurationState:
        commands = self._platform.commands
        saved, differing = saved_by_stamps(running.comments, startup.comments), None
        if saved is False:
            # The stamp also changes without a change of the configuration: let the device compare.
            differing = differing_lines(ask_or_empty(self._session, commands.unsaved_lines))
            saved = differing == 0
        changed_at, changed_by = last_change(running.comments)
        is_exclusive = first(ExclusiveMode, running.commands) is not None
        has_archive = first(ArchiveSection, running.commands) is not None
        return ConfigurationState(
            saved=saved,
            differing_lines=differing,
            changed_at=changed_at,
            changed_by=changed_by,
            locked_by=lock_holder(ask_or_empty(self._session, commands.configuration_lock)) if is_exclusive else None,
            rollback=pending_rollback(ask_or_empty(self._session, commands.pending_rollback)) if has_archive else None,
        )

    def _refusal(
        self, running: Configured, configuration: ConfigurationState | None, user: Authorization | None
    ) -> str | None:
        if self._version.controller_managed:
            return "the device is managed by an SD-WAN controller, which owns its configuration"
        return (
            self._other_platform()
            or self._image_refusal()
            or self._overwriting(running)
            or (user.refusal if user else None)
            or vrf_refusal(self._return_path.vrf, running.commands)
            or self._interface_refusal()
            or (configuration.refusal if configuration else None)
            or self._fetching_refusal(running)
        )

    def _fetching_refusal(self, running: Configured) -> str | None:
        """Return why it can fetch by none of the protocols that the inventory names, or None."""
        if not self._fetching.is_stated or self._fetching.may_be_pushed:
            return None
        listed = network_protocols(self._show_file_systems(), self._platform.file_systems)
        untrusted = self._untrusted(running)
        return protocols_refusal(listed, self._fetching.transports) or (
            untrusted[0] if len(untrusted) == len(self._fetching.transports) > 0 else None
        )

    def _untrusted(self, running: Configured) -> tuple[str, ...]:
        known = trustpoints(running.commands)
        return tuple(text for one in self._fetching.transports if (text := trust_refusal(one, known)) is not None)

    def _fit(self) -> ImageFit | None:
        if self._target is None:
            return None
        models = (self._session.facts().model, *self._version.hardware)
        platform = platform_of(self._session.show_version(), models, self._version.image_path)
        return image_fit(self._target.image.name, self._target.inside, platform)

    def _other_platform(self) -> str | None:
        if self._target is None or self._image is None or self._target.is_insisted:
            return None
        return self._image.reason if self._image.fits is Fits.NO else None

    def _hint(self, refusal: str | None, lines: tuple[str, ...]) -> str | None:
        if refusal is None or self._target is None:
            return None
        if refusal == absence_doubt(self._file_system, self._listing, self._target.image):
            return doubt_hint(self._session)
        if refusal == self._other_platform():
            return f"Give it an image of its own platform; {ANY_IMAGE_OPTION} has this one staged all the same"
        if self._present is not None or refusal != self._space.refusal(self._target.image.size_bytes):
            return None
        where, name = self._file_system, self._target.image.name
        return could_go(self._session, self._listing, file_system=where, lines=lines, kept=(name,))

    def _image_notes(self) -> tuple[str, ...]:
        if self._image is None or self._image.fits is Fits.YES:
            return ()
        if self._image.fits is Fits.NO:
            # Without the operator's insistence the refusal says it.
            insisted = self._target is not None and self._target.is_insisted
            return (f"{self._image.reason}; staged all the same ({ANY_IMAGE_OPTION})",) if insisted else ()
        return (f"whether the image is for this device is not known: {self._image.reason}",)

    def _image_refusal(self) -> str | None:
        if self._target is None:
            return None
        return image_refusal(self._space, self._target.image, self._present)

    def _overwriting(self, running: Configured) -> str | None:
        """Return why a file that is not listed could be overwritten, or None."""
        if self._target is None or self._present is not None or not overwrites_silently(running):
            return None
        return absence_doubt(self._file_system, self._listing, self._target.image)

    def _interface_refusal(self) -> str | None:
        if self._return_path.source_interface is None:
            return None
        return interface_refusal(
            self._return_path.source_interface, self._session.ask(self._platform.commands.interfaces)
        )

    def _notes(
        self, configuration: ConfigurationState | None, user: Authorization | None, running: Configured
    ) -> tuple[str, ...]:
        space: tuple[str, ...] = ()
        if self._target is not None:
            space = self._space.notes(self._target.image.size_bytes)
        return (
            *((self._older_train.note,) if self._older_train is not None else ()),
            *space,
            *(configuration.notes if configuration else ()),
            *(user.notes if user else ()),
            *self._image_notes(),
            *(self._untrusted(running) if self._fetching.is_stated else ()),
        )


def prove_present(
    session: DeviceSession, path: str, image: Image, interrupted: Callable[[], bool]
) -> VerifyReport | None:
    """Return the proof that a file of the right size is the target image, or None if it is another.

    Raises:
        DeviceRefused: The device could not hash it.
        OutputNotUnderstood: It printed no digest, went silent, or the operator stopped it.
    """
    try:
        return verify_image(session, path, image.digests, size_bytes=image.size_bytes, interrupted=interrupted)
    except ImageCorrupt:
        return None
