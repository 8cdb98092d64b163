"""Which configuration commands there are, and what each does to the configuration.

A rule is a specification in the notation of `flashferry.lab.standin.grammar`. ``no`` and ``default`` forms follow from
it. What a line is replaced or removed by is its key: the keywords before the first parameter, and as many parameters as
the rule says name the line.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from flashferry.lab.standin.grammar import Matched, Node
from flashferry.lab.standin.passwords import encode7, typed9
from flashferry.lab.standin.trustpoints import shown_row

if TYPE_CHECKING:
    from collections.abc import Callable

Form = Literal["set", "no", "default"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One configuration command.

    Attributes:
        specification: Its words.
        naming: How many parameters belong to the key.
        section: The mode that the line opens; its lines are the section's children.
        default: The line that is the default and is therefore not shown.
        shows_no: The ``no`` form is not the default and is shown as a line.
        is_free: Any text: the whole line is its own key.
        rewrite: Turns what was typed into what is shown, for passwords.
        group: The key itself, where several specifications set one line.
        written: A keyword that the configuration shows shorter than it is typed in full, and how it shows it.
        is_fixed: The device accepts the line and keeps its own: the version that runs, the marks around the boot lines.
        no_takes_all: Of free lines: ``no`` and their start alone take all of them out.
        no_takes_list: ``no`` and the first two words take all lines that begin so out, whatever stands behind them.
    """

    specification: str
    naming: int = 0
    section: str | None = None
    default: str | None = None
    shows_no: bool = False
    is_free: bool = False
    rewrite: Callable[[str], str] | None = None
    group: str | None = None
    written: tuple[str, str] | None = None
    is_fixed: bool = False
    no_takes_all: bool = False
    no_takes_list: bool = False

    def shown(self, words: tuple[str, ...]) -> tuple[str, ...]:
        """Return words as the configuration shows them."""
        full, short = self.written or ("", "")
        return tuple(short if word == full else word for word in words) if full else words

    def key(self, words: tuple[str, ...]) -> str:
        """Return the key of a line with these words."""
        if self.is_free:
            return " ".join(words)
        if self.group is not None:
            return self.group
        parameters = [i for i, token in enumerate(self.specification.split()) if not token[0].islower()]
        if self.naming:
            return " ".join(words[: parameters[self.naming - 1] + 1])
        return " ".join(words[: parameters[0]] if parameters else words)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigAction:
    """What a line of a configuration mode means."""

    rule: Rule
    form: Form

    def line(self, matched: Matched[ConfigAction]) -> str:
        """Return the line as IOS shows it."""
        text = " ".join(self.rule.shown(matched.words))
        return self.rule.rewrite(text) if self.rule.rewrite else text

    def key(self, matched: Matched[ConfigAction]) -> str:
        """Return the key of the line that is set or removed."""
        words = matched.words if self.form == "set" else matched.words[1:]
        if self.rule.no_takes_list:
            return self.line(matched) if self.form == "set" else " ".join(words[:2])
        return self.rule.key(self.rule.shown(words))


def _free(*starts: str) -> tuple[Rule, ...]:
    return tuple(Rule(specification=f"{start} LINE", is_free=True) for start in starts)


def _hashed(line: str) -> str:
    """Show ``secret [0] X`` as type 9; a secret typed in a hashed form stays as it is."""
    head, _, tail = line.partition(" secret ")
    kind, _, rest = tail.partition(" ")
    if rest and kind in {"5", "8", "9"}:
        return line
    return f"{head} secret 9 {typed9(rest if rest and kind == '0' else tail)}"


def _type7(line: str) -> str:
    """Show ``password [0] X`` as type 7."""
    head, _, tail = line.partition(" password ")
    kind, _, rest = tail.partition(" ")
    if rest and kind == "7":
        return line
    return f"{head} password 7 {encode7(rest if rest and kind == '0' else tail)}"


def _without_host(line: str) -> str:
    """Show an entry of a standard list without the word `host`, as releases with flat lists do."""
    head, number, rest = line.split(" ", 2)
    return f"{head} {number} {rest.replace(' host ', ' ')}" if number.isdecimal() and int(number) < 100 else line


def _with_bulk_window(line: str) -> str:
    """Show bulk mode with its window, as stock configurations of 17.12 and later do; typed without one: assumed."""
    return f"{line} 131072"


def _with_seconds(line: str) -> str:
    """Show ``exec-timeout M`` with the seconds that it has."""
    return line if len(line.split()) > 2 else f"{line} 0"


def _fixed(*specifications: str) -> tuple[Rule, ...]:
    return tuple(Rule(specification=each, is_fixed=True) for each in specifications)


GLOBAL_RULES: tuple[Rule, ...] = (
    Rule(specification="hostname WORD"),
    Rule(specification="prompt LINE"),
    Rule(specification="ip tcp window-size <68-1073741823>"),
    Rule(specification="ip tcp selective-ack"),
    Rule(specification="ip tcp timestamp"),
    Rule(specification="ip tcp path-mtu-discovery"),
    Rule(specification="ip tcp path-mtu-discovery age-timer <10-30>", group="ip tcp path-mtu-discovery"),
    Rule(specification="ip tcp path-mtu-discovery age-timer infinite", group="ip tcp path-mtu-discovery"),
    Rule(specification="ip tcp synwait-time <5-300>"),
    Rule(specification="ip tcp queuemax <5-100000>"),
    Rule(specification="ip tcp mss <68-10000>"),
    Rule(specification="ip ftp username WORD"),
    Rule(specification="ip ftp password LINE", rewrite=_type7),
    Rule(specification="ip ftp passive", default="ip ftp passive", shows_no=True),
    Rule(specification="ip ftp source-interface WORD"),
    Rule(specification="file prompt", default="file prompt"),
    Rule(specification="file prompt alert", default="file prompt alert", group="file prompt"),
    Rule(specification="file prompt noisy", group="file prompt"),
    Rule(specification="file prompt quiet", group="file prompt"),
    Rule(specification="file verify auto"),
    Rule(specification="configuration mode exclusive", group="configuration mode exclusive"),
    Rule(specification="configuration mode exclusive auto", group="configuration mode exclusive"),
    Rule(specification="configuration mode exclusive manual", group="configuration mode exclusive"),
    Rule(specification="enable secret LINE", rewrite=_hashed),
    Rule(specification="username WORD privilege <0-15> secret LINE", naming=1, rewrite=_hashed),
    Rule(specification="username WORD secret LINE", naming=1, rewrite=_hashed),
    Rule(specification="ip domain lookup", default="ip domain lookup", shows_no=True),
    Rule(specification="ip domain name WORD"),
    Rule(specification="ip http server", shows_no=True),
    Rule(specification="ip http secure-server", shows_no=True),
    Rule(specification="ip http client source-interface WORD"),
    Rule(specification="ip http client username WORD"),
    Rule(specification="ip http client password LINE", rewrite=_type7),
    Rule(specification="ip http client connection forceclose"),
    Rule(specification="ip http client connection idle timeout <1-60>"),
    Rule(specification="ip http client connection retry <1-5>", default="ip http client connection retry 1"),
    Rule(specification="ip http client connection timeout <1-60>", default="ip http client connection timeout 10"),
    Rule(specification="ip http client secure-trustpoint WORD"),
    Rule(specification="crypto pki trustpoint WORD", naming=1, section="ca-trustpoint"),
    Rule(specification="crypto pki certificate chain WORD", naming=1, section="config-cert-chain"),
    Rule(specification="ip host WORD A.B.C.D", naming=1),
    Rule(specification="ip scp server enable"),
    Rule(specification="ip ssh version <1-2>"),
    Rule(specification="ip ssh window-size <1-1073741824>"),
    Rule(specification="ip ssh bulk-mode", rewrite=_with_bulk_window),
    Rule(specification="ip ssh bulk-mode <131072-1073741824>", group="ip ssh bulk-mode"),
    Rule(specification="ip ssh time-out <1-120>"),
    Rule(specification="ip ssh authentication-retries <0-5>"),
    Rule(specification="ip ssh source-interface WORD"),
    Rule(specification="ip ssh client algorithm encryption LINE"),
    Rule(specification="ip ssh client algorithm mac LINE"),
    Rule(specification="ip ssh client algorithm kex LINE"),
    Rule(specification="ip ssh stricthostkeycheck"),
    Rule(specification="ip ssh stricthostkeycheck accept-new", group="ip ssh stricthostkeycheck"),
    Rule(specification="ip ssh pubkey-chain", section="conf-ssh-pubkey"),
    Rule(specification="ip ssh break-string WORD"),
    Rule(specification="ip ssh dh min size <1024-4096>"),
    Rule(specification="ip ssh dscp <0-63>"),
    Rule(specification="ip ssh precedence <0-7>"),
    Rule(specification="ip ssh maxstartups <2-128>"),
    Rule(specification="ip ssh logging events"),
    Rule(specification="ip ssh rsa keypair-name WORD"),
    Rule(specification="ip scp username WORD"),
    Rule(specification="ip scp password LINE", rewrite=_type7),
    Rule(specification="ip scp source-interface WORD"),  # which genielibs types before a copy by SCP
    Rule(specification="ip sftp username WORD"),
    Rule(specification="ip sftp password LINE", rewrite=_type7),
    Rule(specification="ip tftp blocksize <512-8192>"),
    Rule(specification="ip tftp source-interface WORD"),
    Rule(specification="tftp-server FS:", naming=1),
    Rule(specification="tftp-server FS: <1-99>", naming=1),
    Rule(specification="tftp-server FS: alias WORD", naming=1),
    Rule(specification="tftp-server FS: alias WORD <1-99>", naming=1),
    Rule(specification="ip forward-protocol nd"),
    Rule(specification="interface WORD", naming=1, section="config-if"),
    Rule(specification="line console <0-0>", naming=1, section="config-line", written=("console", "con")),
    Rule(specification="line aux <0-0>", naming=1, section="config-line"),
    Rule(specification="line vty <0-15> <0-15>", naming=2, section="config-line"),
    Rule(specification="archive", section="config-archive"),
    Rule(specification="event manager applet WORD", naming=1, section="config-applet"),
    Rule(specification="event manager applet WORD authorization bypass", naming=1, section="config-applet"),
    Rule(specification="redundancy", section="config-red"),
    Rule(specification="control-plane", section="config-cp"),
    Rule(specification="router LINE", is_free=True, section="config-router"),
    Rule(specification="line vty <0-15>", naming=1, section="config-line"),
    Rule(specification="vrf definition WORD", naming=1, section="config-vrf"),
    Rule(specification="banner WORD LINE", naming=1),
    Rule(specification="virtual-service WORD", naming=1, section="config-virt-serv"),
    Rule(specification="aaa new-model", shows_no=True),
    Rule(specification="ip cef", shows_no=True),
    Rule(specification="ipv6 cef", shows_no=True),
    Rule(specification="license smart enable", shows_no=True),
    Rule(specification="logging console", default="logging console", shows_no=True),
    Rule(specification="logging console LINE", default="logging console", shows_no=True, group="logging console"),
    Rule(specification="platform punt-keepalive disable-kernel-core", shows_no=True),
    Rule(specification="scheduler allocate", shows_no=True),
    Rule(specification="scheduler allocate <400-60000> <100-4000>", shows_no=True, group="scheduler allocate"),
    Rule(specification="service password-encryption", shows_no=True),
    Rule(specification="diagnostic bootup level minimal"),
    Rule(specification="multilink bundle-name authenticated"),
    Rule(specification="spanning-tree extend system-id"),
    Rule(specification="subscriber templating"),
    *_fixed("version LINE", "boot-start-marker", "boot-end-marker", "license udi LINE"),
    Rule(specification="boot system LINE", is_free=True, no_takes_all=True),
    Rule(specification="access-list WORD LINE", is_free=True, rewrite=_without_host, no_takes_list=True),
    *_free("aaa", "alias", "cdp", "clock timezone", "crypto", "event manager",
           "ip access-list", "ip http client cache", "ip http client proxy-server", "ip http client secure-ciphersuite",
           "ip name-server", "ip route", "ip ssh server", "ip tftp",
           "lldp", "logging", "ntp", "platform", "privilege", "service", "snmp-server"),
)  # fmt: skip

SECTION_RULES: dict[str, tuple[Rule, ...]] = {
    "config-if": (
        Rule(specification="description LINE"),
        Rule(specification="vrf forwarding WORD"),
        Rule(specification="ip address A.B.C.D A.B.C.D", shows_no=True),
        Rule(specification="ip mtu <68-9216>"),
        Rule(specification="ip tcp adjust-mss <500-1460>"),
        Rule(specification="shutdown"),
        Rule(specification="bandwidth <1-100000000>"),
        Rule(specification="mtu <1500-9216>"),
        Rule(specification="duplex auto", group="duplex"),
        Rule(specification="duplex full", group="duplex"),
        Rule(specification="duplex half", group="duplex"),
        Rule(specification="speed WORD"),
        Rule(specification="media-type WORD"),
        Rule(specification="negotiation auto"),
    ),
    "config-line": (
        Rule(specification="exec-timeout <0-35791>", rewrite=_with_seconds, default="exec-timeout 10 0"),
        Rule(specification="exec-timeout <0-35791> <0-2147483>", default="exec-timeout 10 0"),
        Rule(specification="logging synchronous"),
        Rule(specification="stopbits <1-2>"),
        Rule(specification="login local"),
        Rule(specification="privilege level <0-15>"),
        Rule(specification="transport preferred WORD"),
        Rule(specification="transport input LINE"),
    ),
    "config-archive": (
        Rule(specification="path LINE"),
        Rule(specification="maximum <1-14>"),
        Rule(specification="write-memory"),
        Rule(specification="time-period <1-525600>"),
    ),
    "config-applet": (
        Rule(specification="description LINE"),
        Rule(specification="event timer countdown time <0-4294967>"),
        Rule(specification="event timer countdown time <0-4294967> maxrun <0-31536000>"),
        Rule(specification="action WORD cli command LINE", naming=1),
        Rule(specification="action WORD syslog msg LINE", naming=1),
        Rule(specification="action WORD syslog priority WORD msg LINE", naming=1),
    ),
    "config-red": (Rule(specification="mode WORD"),),
    "config-cp": (Rule(specification="service-policy LINE"),),
    "config-router": (Rule(specification="LINE", is_free=True),),
    "config-vrf": (Rule(specification="LINE", is_free=True),),
    "conf-ssh-pubkey": (Rule(specification="LINE", is_free=True),),
    "ca-trustpoint": (Rule(specification="LINE", is_free=True),),
    "config-cert-chain": (Rule(specification="LINE", is_free=True, rewrite=shown_row),),
    "config-virt-serv": (Rule(specification="LINE", is_free=True),),
}


def build_tree(rules: tuple[Rule, ...]) -> Node[ConfigAction]:
    """Return the tree of a mode with the set, ``no`` and ``default`` forms of its rules."""
    root: Node[ConfigAction] = Node()
    for rule in rules:
        root.add(rule.specification, ConfigAction(rule=rule, form="set"))
    for rule in rules:
        for form in _removals(rule):
            for word in ("no", "default"):
                action = ConfigAction(rule=rule, form="no" if word == "no" else "default")
                root.add(f"{word} {form}", action)
    return root


def _removals(rule: Rule) -> tuple[str, ...]:
    """Return what may stand behind ``no``: the key alone, and the whole line."""
    tokens = rule.specification.split()
    if rule.is_free:
        start = rule.specification.removesuffix(" LINE")
        if rule.no_takes_list:
            return (start, rule.specification)
        return (start, rule.specification) if rule.no_takes_all else (rule.specification,)
    key = rule.key(tuple(tokens))
    whole = rule.specification
    return (key,) if key == whole else (key, whole)


GLOBAL_TREE = build_tree(GLOBAL_RULES)
"""All commands there are; a release knows some of them: see `global_tree`."""


@functools.cache
def global_tree(unknown: tuple[str, ...]) -> Node[ConfigAction]:
    """Return the tree of a release that does not know the commands that begin so."""
    if not unknown:
        return GLOBAL_TREE
    starts = tuple(f"{start} " for start in unknown)
    return build_tree(tuple(rule for rule in GLOBAL_RULES if not f"{rule.specification} ".startswith(starts)))


SECTION_TREES = {mode: build_tree(rules) for mode, rules in SECTION_RULES.items()}
