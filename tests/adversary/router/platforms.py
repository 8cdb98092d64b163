"""Three platforms as data: an IOS-XE router, an old IOS with class-B flash, and a Catalyst stack.

Texts follow public captures (show version of ISR4k, 2811 and C9300; dir and show file systems of IOS-XE and IOS) in
shape, not in wording that matters to nobody.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.adversary.router.configuration import RANKS, RANKS_OF_OLD


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """What is a platform's own.

    Attributes:
        name: Its name in cases and tables.
        flash: Name of the file system that holds the running image, without colon.
        aliases: Other names of it.
        image: The running image.
        flash_bytes: Size of the flash.
        members: How many switches the stack has; 1 for a router.
        asks_to_erase: Whether `copy` to flash asks whether it shall be erased first.
        shows_loading: Whether a copy prints a line `Loading ...`.
        ranks: The order of the configuration.
        version: Text of `show version`.
        stock: Configuration that a case's own lines come on top of.
        unknown: Commands that the release does not have.
    """

    name: str
    flash: str
    aliases: tuple[str, ...]
    image: str
    flash_bytes: int
    members: int
    asks_to_erase: bool
    shows_loading: bool
    ranks: tuple[str, ...]
    version: str
    stock: str
    unknown: tuple[str, ...] = ()


_XE_VERSION = """\
Cisco IOS XE Software, Version 16.12.05
Cisco IOS Software [Gibraltar], ISR Software (X86_64_LINUX_IOSD-UNIVERSALK9-M), Version 16.12.5, RELEASE SOFTWARE (fc3)
Technical Support: http://www.cisco.com/techsupport
Copyright (c) 1986-2021 by Cisco Systems, Inc.
Compiled Fri 29-Jan-21 12:12 by mcpre


ROM: IOS-XE ROMMON

{hostname} uptime is 3 weeks, 2 days, 4 hours, 11 minutes
Uptime for this control processor is 3 weeks, 2 days, 4 hours, 13 minutes
System returned to ROM by reload
System image file is "bootflash:isr4300-universalk9.16.12.05.SPA.bin"
Last reload reason: Reload Command


cisco {model} (1RU) processor with 1684579K/3071K bytes of memory.
Processor board ID {serial}
3 Gigabit Ethernet interfaces
32768K bytes of non-volatile configuration memory.
4194304K bytes of physical memory.
3223551K bytes of flash memory at bootflash:.

Configuration register is 0x2102
"""

_IOS_VERSION = """\
Cisco IOS Software, 2800 Software (C2800NM-ADVENTERPRISEK9-M), Version 15.1(4)M7, RELEASE SOFTWARE (fc2)
Technical Support: http://www.cisco.com/techsupport
Copyright (c) 1986-2013 by Cisco Systems, Inc.
Compiled Wed 18-Sep-13 18:12 by prod_rel_team

ROM: System Bootstrap, Version 12.4(13r)T11, RELEASE SOFTWARE (fc1)

{hostname} uptime is 41 weeks, 6 days, 8 hours, 2 minutes
System returned to ROM by power-on
System image file is "flash:c2800nm-adventerprisek9-mz.151-4.M7.bin"
Last reload type: Normal Reload


{model} (revision 53.51) with 512000K/12288K bytes of memory.
Processor board ID {serial}
2 FastEthernet interfaces
DRAM configuration is 64 bits wide with parity enabled.
239K bytes of non-volatile configuration memory.
125440K bytes of ATA CompactFlash (Read/Write)

Configuration register is 0x2102
"""

_CAT_VERSION = """\
Cisco IOS XE Software, Version 17.06.04
Cisco IOS Software [Bengaluru], Catalyst L3 Switch Software (CAT9K_IOSXE), Version 17.6.4, RELEASE SOFTWARE (fc1)
Technical Support: http://www.cisco.com/techsupport
Copyright (c) 1986-2022 by Cisco Systems, Inc.
Compiled Sun 14-Aug-22 08:44 by mcpre


ROM: IOS-XE ROMMON
BOOTLDR: System Bootstrap, Version 17.6.1r[FC2], RELEASE SOFTWARE (P)

{hostname} uptime is 9 weeks, 1 day, 20 hours, 51 minutes
Uptime for this control processor is 9 weeks, 1 day, 20 hours, 55 minutes
System returned to ROM by Reload Command
System image file is "flash:packages.conf"
Last reload reason: Reload Command


cisco {model} (X86) processor with 1338934K/6147K bytes of memory.
Processor board ID {serial}
28 Gigabit Ethernet interfaces
2048K bytes of non-volatile configuration memory.
8388608K bytes of physical memory.
1638400K bytes of Crash Files at crashinfo:.
11264000K bytes of Flash at flash:.

Base Ethernet MAC Address          : 00:11:22:33:44:00
Model Number                       : {model}
System Serial Number               : {serial}


Switch Ports Model              SW Version        SW Image              Mode
------ ----- -----              ----------        ----------            ----
{members}

{other_members}
Configuration register is 0x102
"""

_XE_STOCK = """\
version 16.12
service timestamps debug datetime msec
service timestamps log datetime msec
platform qfp utilization monitor load 80
hostname {hostname}
boot-start-marker
boot-end-marker
vrf definition Mgmt-intf
 address-family ipv4
 exit-address-family
enable secret 9 $9$ab12cd34ef56gh
no aaa new-model
no ip domain lookup
ip domain name branch.example
login on-success log
subscriber templating
multilink bundle-name authenticated
crypto pki trustpoint TP-self-signed-1187
 enrollment selfsigned
 subject-name cn=IOS-Self-Signed-Certificate-1187
 revocation-check none
 rsakeypair TP-self-signed-1187
crypto pki certificate chain TP-self-signed-1187
 certificate self-signed 01
  30820330 30820218 A0030201 02020101 300D0609 2A864886 F70D0101 05050030
  31312F30 2D060355 04031326 494F532D 53656C66 2D536967 6E65642D 43657274
  \tquit
license udi pid ISR4331/K9 sn {serial}
spanning-tree extend system-id
username {username} privilege {privilege} secret 9 $9$Zq81kdOq2mP1fE
username colleague privilege 15 secret 9 $9$Yw72jcNp1lO0eD
redundancy
 mode none
interface GigabitEthernet0/0/0
 description WAN
 ip address 10.20.30.1 255.255.255.0
 negotiation auto
interface GigabitEthernet0/0/1
 description LAN
 ip address 10.20.40.1 255.255.255.0
 ip tcp adjust-mss 1360
 negotiation auto
interface GigabitEthernet0
 vrf forwarding Mgmt-intf
 no ip address
 shutdown
 negotiation auto
ip forward-protocol nd
no ip http server
no ip http secure-server
ip route 0.0.0.0 0.0.0.0 10.20.30.254
ip route 10.99.0.0 255.255.0.0 10.20.40.254
ip ssh version 2
ip access-list extended MGMT
 10 permit tcp 10.0.0.0 0.255.255.255 any eq 22
logging host 10.20.40.9
snmp-server community {community} RO
snmp-server location rack 7
control-plane
line con 0
 stopbits 1
line vty 0 4
 login local
 transport input ssh
line vty 5 15
 login local
 transport input ssh
ntp server 10.20.40.8
"""

_IOS_STOCK = """\
version 15.1
service timestamps debug datetime msec
service timestamps log datetime msec
service password-encryption
hostname {hostname}
boot-start-marker
boot-end-marker
enable secret 5 $1$mERr$hx5rVt7rPNoS4wqbXKX7m0
no aaa new-model
no ip domain lookup
ip domain name branch.example
multilink bundle-name authenticated
username {username} privilege {privilege} password 7 08314D5D1A1C0A
username colleague privilege 15 password 7 13061E010803
redundancy
interface FastEthernet0/0
 description WAN
 ip address 10.20.30.1 255.255.255.0
 duplex auto
 speed auto
interface FastEthernet0/1
 ip address 10.20.40.1 255.255.255.0
 ip tcp adjust-mss 1360
 duplex auto
 speed auto
ip forward-protocol nd
no ip http server
ip route 0.0.0.0 0.0.0.0 10.20.30.254
ip ssh version 2
logging 10.20.40.9
access-list 10 permit 10.0.0.0 0.255.255.255
snmp-server community {community} RO
control-plane
line con 0
line aux 0
line vty 0 4
 login local
 transport input ssh
"""

_CAT_STOCK = """\
version 17.6
service timestamps debug datetime msec
service timestamps log datetime msec
hostname {hostname}
boot-start-marker
boot-end-marker
vrf definition Mgmt-vrf
 address-family ipv4
 exit-address-family
enable secret 9 $9$ab12cd34ef56gh
no aaa new-model
switch 1 provision c9300-24p
switch 2 provision c9300-24p
switch 3 provision c9300-24p
ip domain name campus.example
login on-success log
crypto pki trustpoint SLA-TrustPoint
 enrollment pkcs12
 revocation-check crl
crypto pki certificate chain SLA-TrustPoint
 certificate ca 01
  30820321 30820209 A0030201 02020101 300D0609 2A864886 F70D0101 0B050030
  32310E30 0C060355 040A1305 43697363 6F312030 1E060355 04031317 43697363
  \tquit
diagnostic bootup level minimal
spanning-tree mode rapid-pvst
spanning-tree extend system-id
username {username} privilege {privilege} secret 9 $9$Zq81kdOq2mP1fE
username colleague privilege 15 secret 9 $9$Yw72jcNp1lO0eD
redundancy
 mode sso
class-map match-any system-cpp-police-forus
 description Forus Address resolution and Forus traffic
interface GigabitEthernet0/0
 vrf forwarding Mgmt-vrf
 no ip address
 shutdown
interface GigabitEthernet1/0/1
 description uplink
 no switchport
 ip address 10.20.30.1 255.255.255.0
interface GigabitEthernet2/0/1
 no switchport
 ip address 10.20.40.1 255.255.255.0
interface Vlan1
 no ip address
 shutdown
ip forward-protocol nd
no ip http server
no ip http secure-server
ip route 0.0.0.0 0.0.0.0 10.20.30.254
ip ssh version 2
logging host 10.20.40.9
snmp-server community {community} RO
snmp-server location row 3
control-plane
line con 0
 stopbits 1
line vty 0 4
 login local
 transport input ssh
line vty 5 15
 login local
 transport input ssh
"""

XE = Platform(
    name="xe", flash="bootflash", aliases=("flash",), image="isr4300-universalk9.16.12.05.SPA.bin",
    flash_bytes=3_223_551_000, members=1, asks_to_erase=False, shows_loading=True, ranks=RANKS, version=_XE_VERSION,
    stock=_XE_STOCK,
)  # fmt: skip
IOS = Platform(
    name="ios", flash="flash", aliases=(), image="c2800nm-adventerprisek9-mz.151-4.M7.bin", flash_bytes=128_450_560,
    members=1, asks_to_erase=True, shows_loading=True, ranks=RANKS_OF_OLD, version=_IOS_VERSION, stock=_IOS_STOCK,
    unknown=("verify /sha512", "show configuration lock"),
)  # fmt: skip
STACK = Platform(
    name="stack", flash="flash", aliases=("bootflash",), image="packages.conf", flash_bytes=11_353_194_496, members=3,
    asks_to_erase=False, shows_loading=False, ranks=RANKS, version=_CAT_VERSION, stock=_CAT_STOCK,
)  # fmt: skip
PLATFORMS = {one.name: one for one in (XE, IOS, STACK)}
MODELS = {"xe": "ISR4331/K9", "ios": "Cisco 2811", "stack": "C9300-24P"}
