"""What goes wrong beside the kill: the columns of the matrix. Pure.

Each fault also says which points a run then does not pass, for the rules: `never`, and `perhaps` where that depends on
whether the tool copies again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.e2e.matrix.points import ALL, APPLET, MEMBERS, NEITHER, PACKAGES, SACK, WINDOW, AtFlash, between

IMAGE_BYTES = 600_000
FLASH_BYTES_PER_S = 150_000
INSTALL_BYTES_PER_S = 300_000
HALF = IMAGE_BYTES // 2
MOST = 3 * IMAGE_BYTES // 4
COLLEAGUES_LINE = "snmp-server location rack 7"
COLLEAGUES_WINDOW = "ip tcp window-size 30000"
AWAY_S = 2.0
PUSH = "push"
HTTPS = "https"
SCP_SERVER = "ip scp server enable"
NOBODY = "198.18.0.99"
"""An address of the lab's core network that nobody has: a SYN to it is never answered."""

_REMOVES = {"other_user_removes_inactive": True}
_COPIED = between("pull.quarter", "verify.done")
_LATE = between("pull.most", "verify.done")
_UNDOING = between("restore.mode", "restore.leaving") | {"restore.mark", "restore.last"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something that goes wrong.

    Attributes:
        name: Short and unique.
        says: For the table's legend.
        switches: Faults of the stand-in, from the beginning.
        strikes: Events of the lab at `strikes_at`, or at the kill where that comes first.
        strikes_at: The point at which they happen: when the copy is about to start, unless something else is said.
        strikes_on_flash: When behind that point they happen, by how much of the image is on flash; None: at it.
        strikes_at_kill: Events of the lab at a kill that comes before half the image is on flash.
        mended: Switches set after each recovery, and before the next run.
        server_address: Where the device is told to find our server, if not where it is.
        kills_recovery: Whether the first recovery is killed too.
        cuts_session: Whether a copy that is not killed loses its SSH session; its record must tell.
        never: Points that the run does not pass.
        perhaps: Points that it may pass.
        never_set: Lines of ours that do not come into force.
        stuck: Lines of ours that cannot be taken back until it is mended.
        locks: Nothing can be configured until it is mended: where our mark is, no line can be proven gone.
        fails_at: The step named by a run that is not killed; None: it ends with the image done; empty: either.
        transport: By what the copy goes.
        dead_man: Whether the run leaves an applet with the device.
        hands_on: Whether the device has members that boot from files of their own.
        adds: Whether the device adds the image to its packages.
    """

    name: str
    says: str
    switches: Mapping[str, Any] = field(default_factory=dict)
    strikes: Mapping[str, Any] = field(default_factory=dict)
    strikes_at: str = "pull.started"
    strikes_on_flash: AtFlash | None = None
    strikes_at_kill: Mapping[str, Any] = field(default_factory=dict)
    mended: Mapping[str, Any] = field(default_factory=dict)
    server_address: str | None = None
    kills_recovery: bool = False
    cuts_session: bool = False
    never: frozenset[str] = NEITHER
    perhaps: frozenset[str] = NEITHER
    never_set: frozenset[str] = NEITHER
    stuck: frozenset[str] = NEITHER
    locks: bool = False
    fails_at: str | None = None
    transport: str = "ftp"
    dead_man: bool = False
    hands_on: bool = False
    adds: bool = False

    @property
    def has(self) -> frozenset[str]:
        """Return what there is in this column that some rows need."""
        parts = {APPLET: self.dead_man, MEMBERS: self.hands_on, PACKAGES: self.adds, "": True}
        return frozenset(name for name, is_there in parts.items() if is_there)

    @property
    def goes_on(self) -> bool:
        """Return whether something follows the restore: then another run must finish what this one did not."""
        return self.hands_on or self.adds

    @property
    def removes(self) -> bool:
        """Return whether somebody removes what is inactive, and the image with it."""
        return "other_user_removes_inactive" in self.strikes

    @property
    def fires(self) -> bool:
        """Return whether the applet's time is over at some moment."""
        return "applets_fire" in self.strikes


NO_FAULT = Fault(name="none", says="nothing else goes wrong")
FAULTS: tuple[Fault, ...] = (
    NO_FAULT,
    Fault(
        name="second kill",
        says="`recover` is killed too: in configuration mode, or before it reads the startup configuration",
        kills_recovery=True,
    ),
    Fault(
        name="SSH lost",
        says="the SSH session is cut when half the image is on flash",
        switches={"drop_ssh_after_bytes": HALF},
        cuts_session=True,
        perhaps=_LATE,
        fails_at="",
    ),
    Fault(
        name="copy goes on",
        says="the SSH session is cut when half the image is on flash, and the copy goes on without it",
        switches={"drop_ssh_after_bytes": HALF, "copy_outlives_session": True},
        cuts_session=True,
        perhaps=frozenset({"pull.done"}),  # the step has failed; that the copy went on is found out behind it
    ),
    Fault(
        name="part stays",
        says="the SSH session is cut when half the image is on flash, and that half stays there",
        switches={"drop_ssh_after_bytes": HALF, "keeps_partial_file": True},
        cuts_session=True,
        never=_LATE,
        fails_at="pull",
    ),
    Fault(
        name="reboot",
        says="the router restarts when half the image is on flash, or at the kill where that comes first",
        switches={"reboot_after_bytes": HALF, "boot_s": AWAY_S},
        cuts_session=True,
        strikes_at_kill={"reboot": AWAY_S},
        perhaps=_LATE | _UNDOING,
        fails_at="",
    ),
    Fault(
        name="full flash",
        says="the flash fills up when half the image is on it",
        switches={"disk_full_after_bytes": HALF},
        never=_LATE,
        fails_at="pull",
    ),
    Fault(
        name="refused line",
        says="the router refuses our second line",
        switches={"refuse_config_pattern": "^ip tcp selective-ack"},
        never=between("tune.done", "verify.done"),
        perhaps=frozenset({"tune.reread"}),
        never_set=frozenset({SACK}),
        fails_at="tune",
    ),
    Fault(
        name="ignored line",
        says="the router takes our first line silently and does not enter it; that it is gone is accepted",
        switches={"ignore_config_pattern": "^ip tcp window-size"},
        never=between("tune.done", "verify.done") | {"lease.ended"},
        never_set=frozenset({WINDOW}),
        fails_at="tune",
    ),
    Fault(
        name="undo refused",
        says="the router refuses to take our second line back, until after the first recovery",
        switches={"refuse_config_pattern": "^no ip tcp selective-ack"},
        mended={"refuse_config_pattern": None},
        never=between("restore.startup", "lease.ended"),
        stuck=frozenset({SACK}),
    ),
    Fault(
        name="locked",
        says="a colleague holds the lock on configuration mode, until after the first recovery",
        strikes={"config_locked_by": "colleague"},
        mended={"config_locked_by": None},
        never=between("restore.mode", "lease.ended"),
        stuck=ALL,
        locks=True,
    ),
    Fault(
        name="foreign line",
        says=f"a colleague enters `{COLLEAGUES_LINE}`, which the operator accepts",
        strikes={"other_user_configures": [COLLEAGUES_LINE]},
        never=frozenset({"lease.ended"}),
    ),
    Fault(
        name="foreign value",
        says=f"a colleague enters `{COLLEAGUES_WINDOW}`, in place of our own line, which the operator accepts",
        strikes={"other_user_configures": [COLLEAGUES_WINDOW]},
        never=frozenset({"restore.between", "lease.ended"}),
    ),
    Fault(
        name="foreign save",
        says="a colleague saves the running configuration, and again after the first recovery",
        strikes={"other_user_saves": True},
        mended={"other_user_saves": True},
        never=frozenset({"lease.ended"}),
    ),
    Fault(
        name="save, reboot",
        says="a colleague saves, then the router restarts; saved again after each recovery",
        strikes={"other_user_saves": True, "reboot": AWAY_S},
        mended={"other_user_saves": True},
        never=frozenset({"lease.ended"}),
        perhaps=between("pull.asked", "verify.done"),
        fails_at="",
    ),
    Fault(
        name="stall",
        says="the router takes no byte of the data connection",
        switches={"silent_start_s": 900.0},
        never=_COPIED,
        fails_at="pull",
    ),
    Fault(
        name="no server",
        says="the router cannot reach our server: no answer to its SYN",
        server_address=NOBODY,
        never=_COPIED,
        fails_at="pull",
    ),
    Fault(
        name="wrong hash",
        says="one byte of the file on flash is wrong",
        switches={"flip_byte": True},
        never=frozenset({"verify.done"}),
        fails_at="verify",
    ),
    Fault(name="by HTTP", says="nothing goes wrong; the copy goes by HTTP, in all rows above by FTP", transport="http"),
    Fault(name="by SCP", says="the same by SCP, with a line of the SSH channel's window among ours", transport="scp"),
    Fault(name="by SFTP", says="the same by SFTP", transport="sftp"),
    Fault(
        name="by push",
        says=f"nothing goes wrong; our side writes the image, with `{SCP_SERVER}` among our lines where it is off",
        transport=PUSH,
    ),
    Fault(
        name="by HTTPS",
        says="nothing goes wrong; the copy goes by HTTPS, from a server that the router's trustpoint trusts",
        transport=HTTPS,
    ),
    Fault(
        name="dead-man",
        says="nothing goes wrong; an applet on the router would take our lines back, as in all later rows",
        dead_man=True,
    ),
    Fault(
        name="applet fires",
        says="the applet's time is over before the copy begins, or at the kill where that comes first: then the router "
        "is equal to the start by its own doing, before any recovery",
        strikes={"applets_fire": True},
        perhaps=_UNDOING,
        dead_man=True,
    ),
    Fault(
        name="save, armed",
        says="a colleague saves while the applet counts, and again after the first recovery",
        strikes={"other_user_saves": True},
        mended={"other_user_saves": True},
        never=frozenset({"lease.ended"}),
        dead_man=True,
    ),
    Fault(
        name="no EEM",
        says="the router takes no applet: staged without one",
        switches={"refuse_config_pattern": "^event manager"},
        never=between("dead-man.body", "dead-man.proof"),
        never_set=frozenset({APPLET}),
        dead_man=True,
    ),
    Fault(
        name="members",
        says="nothing goes wrong; a stack in bundle mode, or a router with two processors, hands the image on",
        hands_on=True,
    ),
    Fault(
        name="member leaves",
        says="the same, and the member leaves that the box copies to, with three quarters on its flash; it is back "
        "before the next run",
        switches={"member_leaves_after_bytes": MOST},
        mended={"members_away": (), "member_leaves_after_bytes": None},
        never=between("distribute.hash", "distribute.done"),
        fails_at="distribute",
        hands_on=True,
    ),
    Fault(
        name="add",
        says="nothing goes wrong; a device in install mode adds the image, as in all later rows",
        adds=True,
    ),
    Fault(
        name="no room to add",
        says="the flash fills up right before `install add`, though there was room; there is some before the next run",
        strikes={"flash_full": True},
        strikes_at="add.started",
        mended={"flash_full": False},
        never=frozenset({"add.done"}),
        fails_at="add",
        adds=True,
    ),
    Fault(
        name="removed in copy",
        says="a colleague gives `install remove inactive` when half the image is on flash: it takes that file too",
        strikes=_REMOVES,
        strikes_at="pull.quarter",
        strikes_on_flash=AtFlash(share=0.5),
        never=frozenset({"pull.most", "verify.done"}) | between("distribute.started", "add.done"),
        fails_at="verify",
        adds=True,
    ),
    Fault(
        name="removed before add",
        says="the same right before `install add`",
        strikes=_REMOVES,
        strikes_at="add.started",
        never=frozenset({"add.done"}),
        fails_at="add",
        adds=True,
    ),
    Fault(
        name="removed after add",
        says="the same right after `install add`: the run must not call the device ready",
        strikes=_REMOVES,
        strikes_at="add.done",
        adds=True,
    ),
)
SSH_TRANSPORTS = ("scp", "sftp", PUSH)
BY_NAME = {fault.name: fault for fault in FAULTS}
