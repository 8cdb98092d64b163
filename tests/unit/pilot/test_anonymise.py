"""What leaves a pilot: nothing that identifies the network, the same for the same, the rest as the device sent it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flashferry.pilot.anonymise import Anonymiser
from flashferry.pilot.exchanges import Session, read_session
from flashferry.pilot.facts import Evidence, judge
from flashferry.pilot.result_folder import captures, page, transcript

CAPTURES = Path(__file__).parents[2] / "captures"

CONFIGURATION = """\
Building configuration...

Current configuration : 4818 bytes
!
! Last configuration change at 14:23:07 UTC Mon Mar 2 2026 by jdoe
!
version 15.2
service timestamps log datetime msec
!
hostname acme-zrh-rtr07
!
boot-start-marker
boot system flash:c2900-universalk9-mz.SPA.157-3.M4.bin
boot-end-marker
!
vrf definition GOLDBANK
 rd 64999:100
!
enable secret 5 $1$abcd$9sKqv8yTrPn0mWbZxYk1e0
aaa group server tacacs+ ACMETAC
 server-private 10.20.30.40 key 7 0822455D0A16
!
ip domain name corp.goldbank.ch
ip host nms.goldbank.ch 10.20.30.41
ip name-server 10.20.30.53 2a02:1234:5678::53
username jdoe privilege 15 secret 9 $9$2MJBozw/9R3UsU$2lFhcKvpghcyw8deP25GOfyZaagyUOGBymkryvOdfco
username bob privilege 1 password 0 Sommer2026
crypto pki trustpoint GOLDCA
 enrollment url http://ca.goldbank.ch:80
crypto pki certificate chain GOLDCA
 certificate 4A2B
  308202A9 30820212 A0030201 02020114 300D0609 2A864886 F70D0101 05050030
  5D310B30 09060355 04061302
  \tquit
ip ssh pubkey-chain
  username netops
   key-string
    AAAAB3NzaC1yc2EAAAADAQABAAABAQDKq9vR1hT0sWbZxYk1e0AAAAB3NzaC1yc2EAAAADAQ
    exit
!
interface GigabitEthernet0/0
 description Swisscom circuit ZH-4711-0815, call 0800555155
 vrf forwarding GOLDBANK
 ip address 10.20.30.1 255.255.255.0
 ipv6 address 2A02:1234:5678::1/64
 mac-address 0011.2233.aabb
 ip access-group HQ-IN in
!
router bgp 13030
 neighbor 172.31.5.6 remote-as 3303
 neighbor 172.31.5.6 description Upstream-Bern
!
ip access-list extended HQ-IN
 remark from headquarters Bahnhofstrasse
 permit tcp 10.20.0.0 0.0.255.255 any eq 22
!
logging host 10.20.30.99
snmp-server community Gr0ssGeheim RO
snmp-server location Bahnhofstrasse 1, 8001 Zurich
snmp-server contact noc@goldbank.ch
snmp-server host 10.20.30.98 version 2c Gr0ssGeheim
tftp-server flash:goldbank-golden.bin
banner motd ^C
Property of Gold Bank AG, call 0800555155
^C
line vty 0 4
 exec-timeout 10 0
 transport input ssh
end
"""

WORDS = """
acme-zrh-rtr07 jdoe bob netops FTX1842A0BC 9UJ2YL5QK3D goldbank GOLDCA ACMETAC HQ-IN Swisscom 4711 0800555155 13030 3303
10.20.30.40 10.20.30.41 10.20.30.53 10.20.30.1 10.20.30.99 10.20.30.98 172.31.5.6 10.20.0.0 2a02:1234:5678
0011.2233.aabb 00:11:22:33:aa:bb Upstream Bahnhofstrasse headquarters Gr0ssGeheim Sommer2026 0822455D0A16 noc@
308202A9 5D310B30 AAAAB3 9sKqv8yTrPn0mWbZxYk1e0 2lFhcKvpghcyw8deP25GOf authorised kunden.csv PlainEnable1
"""
SECRETS = WORDS.split()
"""Nothing of this may be found in anything that a pilot leaves."""

VERSION = """\
Cisco IOS Software, C2900 Software (C2900-UNIVERSALK9-M), Version 15.7(3)M4, RELEASE SOFTWARE (fc2)
ROM: System Bootstrap, Version 15.0(1r)M16, RELEASE SOFTWARE (fc1)

acme-zrh-rtr07 uptime is 3 weeks, 2 days
System image file is "flash0:c2900-universalk9-mz.SPA.157-3.M4.bin"
Last reload reason: Reload Command by jdoe

Cisco CISCO2911/K9 (revision 1.0) with 479232K/45056K bytes of memory.
Processor board ID FTX1842A0BC

Device#   PID                   SN
*1        CISCO2911/K9          FTX1842A0BC

Configuration register is 0x2102

"""

BRIEF = """\
Interface              IP-Address      OK? Method Status                Protocol
GigabitEthernet0/0     10.20.30.1      YES NVRAM  up                    up
GigabitEthernet0/1     172.31.5.5      YES NVRAM  up                    up
"""

DIRECTORY = """\
Directory of flash0:/

    1  -rw-   103727964  Mar 29 2017 00:00:00 +00:00  c2900-universalk9-mz.SPA.157-3.M4.bin
    2  -rw-        1234  Oct 17 2018 18:57:10 +00:00  goldbank-kunden.csv

255885312 bytes total (152154112 bytes free)
"""

LOG = "*Mar  2 14:24:43.803: %SYS-5-CONFIG_I: Configured from console by jdoe on vty0 (10.20.30.99)\n"


def entries(*talk: tuple[str, str]) -> list[str]:
    """Return a transcript's lines of commands and answers at one prompt, with a banner before the first."""
    name = "acme-zrh-rtr07"
    lines = [
        ("-", f"{name}: logging in to 10.20.30.1 port 22 as 'jdoe'"),
        ("<", r"For authorised persons of Gold Bank\r\n"),
    ]
    for command, answer in talk:
        lines += [("<", f"{name}#"), (">", rf"{command}\n"), ("<", rf"{command}\r\n")]
        lines += [("<", rf"{line}\r\n") for line in answer.split("\n")[:-1]]
    lines.append(("<", f"{name}#"))
    return [f"2026-03-02T14:24:{number % 60:02d}.000Z {mark} {text}" for number, (mark, text) in enumerate(lines)]


@pytest.fixture
def session() -> Session:
    talk = (
        ("show version", VERSION),
        ("show running-config", CONFIGURATION),
        ("show ip interface brief", BRIEF + LOG),
        ("dir flash0:", DIRECTORY),
        ("show mac", "GigabitEthernet0/0 is up, address is 0011.2233.aabb (bia 00:11:22:33:aa:bb)\n"),
        ("show inventory", "PID: CISCO2911/K9 , VID: V07 , SN: FTX1842A0BC\nSN of another: 9UJ2YL5QK3D\n"),
        ("show hosts", "nms.goldbank.ch  10.20.30.41 in vrf GOLDBANK by list HQ-IN, password PlainEnable1\n"),
    )
    return read_session("01-check", entries(*talk))


@pytest.fixture
def anonymiser(session: Session) -> Anonymiser:
    return Anonymiser((session,), hosts=("ACME-ZRH-RTR07",), users=("jdoe",), words=("PlainEnable1",))


def left_by(session: Session, anonymiser: Anonymiser) -> dict[str, str]:
    """Return all that a pilot writes of a session."""
    findings = judge(Evidence(sessions=(session,)))
    return {
        "page": page("2911", (), findings, anonymiser.text),
        "transcript": transcript(session, anonymiser),
        **captures((session,), anonymiser),
    }


def test_nothing_that_identifies_the_network_is_left(session, anonymiser):
    """Addresses, names, users, serials, communities, certificates, keys, banners, remarks: in no file, in any case."""
    left = left_by(session, anonymiser)
    whole = "\n".join([*left, *left.values()]).casefold()
    assert [word for word in SECRETS if word.casefold() in whole] == []


def test_the_same_is_replaced_by_the_same(session, anonymiser):
    """A host, an address and a user have one name each, in a configuration, a table, a log line and a prompt."""
    version, configuration, brief = (anonymiser.exchange(one) for one in session.exchanges[1:4])
    router = re.search(r"^hostname (\S+)$", configuration.answer, re.MULTILINE)[1]
    assert version.prompt == f"{router}#"
    assert f"\n{router} uptime is" in version.answer
    address = re.search(r"^ ip address (\S+) 255\.255\.255\.0$", configuration.answer, re.MULTILINE)[1]
    assert f"GigabitEthernet0/0     {address}" in brief.answer
    user = re.search(r"^username (\S+) privilege 15", configuration.answer, re.MULTILINE)[1]
    assert f"Configured from console by {user} on vty0" in brief.answer
    assert f"Reload Command by {user}" in version.answer


def test_columns_and_lines_stay_where_they_were(session, anonymiser):
    """A table's columns begin where they did, and no answer has more or fewer lines."""
    made = anonymiser.exchange(session.exchanges[3]).answer.split("\n")
    assert [line.find("YES") for line in made[1:3]] == [39, 39]
    for one in session.exchanges:
        assert anonymiser.exchange(one).answer.count("\n") == one.answer.count("\n"), one.command


def test_what_identifies_no_one_stays(session, anonymiser):
    """Words of IOS, figures, masks, platform and image names, the texts that the product reads."""
    version, configuration, _, directory = (anonymiser.exchange(one).answer for one in session.exchanges[1:5])
    assert (
        "Cisco IOS Software, C2900 Software (C2900-UNIVERSALK9-M), Version 15.7(3)M4, RELEASE SOFTWARE (fc2)" in version
    )
    assert "Cisco CISCO2911/K9 (revision 1.0) with 479232K/45056K bytes of memory." in version
    for line in (
        "boot system flash:c2900-universalk9-mz.SPA.157-3.M4.bin",
        "interface GigabitEthernet0/0",
        " exec-timeout 10 0",
        "line vty 0 4",
        "service timestamps log datetime msec",
    ):
        assert f"\n{line}\n" in configuration
    assert re.search(r"^ permit tcp \S+\.0 0\.0\.255\.255 any eq 22$", configuration, re.MULTILINE)
    assert "c2900-universalk9-mz.SPA.157-3.M4.bin" in directory
    assert "255885312 bytes total (152154112 bytes free)" in directory


def test_a_name_that_is_a_word_of_ios_spoils_no_text():
    """A router called 'router' and a user 'cisco' identify no one: 'router bgp' and 'cisco' stay in other texts."""
    talk = (("show running-config", "hostname router\nusername cisco privilege 15\nrouter bgp 1\n"),)
    session = read_session("01-check", [line.replace("acme-zrh-rtr07", "router") for line in entries(*talk)])
    made = Anonymiser((session,)).text("cisco ISR4321/K9 (1RU) processor, see router bgp")
    assert made == "cisco ISR4321/K9 (1RU) processor, see router bgp"


def test_a_replacement_is_no_word_of_the_device():
    """A router called router1 is not router2's replacement, nor the other way round."""
    lines = [line.replace("acme-zrh-rtr07", "router2") for line in entries(("show users", "router1 and router2\n"))]
    session = read_session("01-check", lines)
    made = Anonymiser((session,), hosts=("router1",)).text("router1 and router2")
    assert "router1" not in made
    assert "router2" not in made
    assert len(set(made.split(" and "))) == 2


@pytest.mark.parametrize("path", sorted(CAPTURES.glob("*/*.txt")), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_public_captures_keep_their_lines(path):
    """Whatever a device printed, each line stays one line, and a second time nothing else comes of it."""
    command = "show running-config" if path.parent.name == "config" else path.parent.name.replace("_", " ")
    text = path.read_text(encoding="utf-8", errors="replace")
    made = Anonymiser(()).text(text, command=command)
    assert made.count("\n") == text.count("\n")
    assert Anonymiser(()).text(text, command=command) == made
