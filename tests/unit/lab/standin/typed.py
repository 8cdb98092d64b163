"""What people type on a router: 148 show commands, and 106 everyday things, each with what IOS answers to it."""

from __future__ import annotations

SHOW = (
    """
show aaa servers|show access-lists|show adjacency|show aliases|show archive|show archive log config all|show arp
show authentication sessions|show banner motd|show bfd neighbors|show bgp summary|show boot|show bootvar|show buffers
show calendar|show cdp|show cdp interface|show cdp neighbors|show cdp neighbors detail|show class-map|show clock
show clock detail|show configuration|show control-plane host open-ports|show controllers
show crypto ikev2 sa|show crypto ipsec sa|show crypto isakmp sa|show crypto key mypubkey rsa|show crypto map
show crypto pki certificates|show crypto pki trustpoints|show crypto session|show debugging|show dmvpn
show dot1x all|show environment|show etherchannel summary|show event manager policy registered
show file descriptors|show file systems|show flow monitor|show glbp brief|show history|show hosts
show interfaces|show interfaces accounting|show interfaces counters|show interfaces description
show interfaces GigabitEthernet1|show interfaces stats|show interfaces status|show interfaces summary
show interfaces switchport|show interfaces transceiver|show interfaces trunk|show inventory|show ip access-lists
show ip arp|show ip bgp|show ip bgp neighbors|show ip bgp summary|show ip cef|show ip cef summary|show ip dhcp binding
show ip dhcp pool|show ip eigrp neighbors|show ip flow export|show ip http server status|show ip igmp groups
show ip interface|show ip interface brief|show ip mroute|show ip nat statistics|show ip nat translations|show ip nhrp
show ip ospf|show ip ospf database|show ip ospf interface brief|show ip ospf neighbor|show ip pim neighbor
show ip policy|show ip prefix-list|show ip protocols|show ip route|show ip route 198.18.1.11|show ip route connected
show ip route static|show ip route summary|show ip sla statistics|show ip sla summary|show ip sockets|show ip ssh
show ip traffic|show ip vrf|show ipv6 interface brief|show ipv6 neighbors|show ipv6 route|show issu state detail
show key chain|show kron schedule|show license|show license summary|show line|show lldp|show lldp neighbors
show lldp neighbors detail|show logging|show logging history|show login|show mac address-table|show memory statistics
show monitor session all|show mpls forwarding-table|show mpls ldp neighbor|show ntp associations|show ntp status
show platform|show platform resources|show platform software status control-processor brief
show policy-map|show policy-map interface|show port-security|show power inline|show privilege|show processes cpu
show processes cpu history|show processes cpu sorted|show processes memory|show protocols|show redundancy|show reload
show route-map|show running-config|show sessions|show snmp|show spanning-tree|show ssh|show stacks|show standby brief
show startup-config|show switch|show tcp brief|show tech-support|show users|show version|show vlan brief|show vrf
""".replace("\n", "|")
    .strip("|")
    .split("|")
)

CARET = r"\n +\^\n% Invalid input detected at '\^' marker\."
UP, DOWN, LEFT, RIGHT = "\x1b[A\\", "\x1b[B\\", "\x1b[D\\", "\x1b[C\\"

EVERYDAY: tuple[tuple[str, tuple[str, ...], str], ...] = (
    # Exec mode: abbreviations, refusals, paging, filters.
    ("a cut keyword", ("sh ver",), r"sh ver\nCisco IOS"),
    ("an ambiguous word", ("co",), r'% Ambiguous command:  "co"'),
    ("an incomplete line", ("show",), r"% Incomplete command\."),
    ("an unknown command", ("frobnicate",), rf"r1#frobnicate{CARET}"),
    ("a wrong letter", ("show vezsion",), r"r1#show vezsion\n {10}\^\n"),
    ("a wrong parameter", ("terminal length 600",), r"\n {19}\^\n"),
    ("a comment", ("! nothing",), r"! nothing\nr1#"),
    ("an empty line", ("",), r"r1#\nr1#"),
    ("include", ("show version | include uptime",), r"uptime\nr1 uptime is"),
    ("exclude", ("show ip interface brief | exclude unassigned",), r"Interface +IP-Address.*\nGig.*198"),
    ("begin", ("show running-config | begin line con",), r"line con\nline con 0\n"),
    ("section", ("show running-config | section ^interface",), r"\^interface\ninterface Gig"),
    ("count", ("show running-config | count interface",), r"Number of lines which match regexp = \d+"),
    ("a wrong filter", ("show clock | foo",), CARET),
    ("redirect", ("show clock | redirect bootflash:t.txt", "more bootflash:t.txt"), r"more bootflash:t.txt\n\*\d\d:"),
    ("append", ("show clock | append bootflash:t.txt", "show clock | append bootflash:t.txt",
                "show file information bootflash:t.txt", "more bootflash:t.txt | count UTC"), r"regexp = 2"),
    ("tee", ("show clock | tee bootflash:t.txt", "dir bootflash:t.txt"), r"tee bootflash:t.txt\n\*.*UTC[^$]*t\.txt\n"),
    ("help of a mode", ("?\\",), r"Exec commands:\n(  \S.*\n)*  show +Show running system information\n"),
    ("help of a command", ("show ?\\", ""), r"  clock +\S.*\n"),
    ("help of a part", ("show cl?\\", "ock"), r"class-map  clns  clock\n"),
    ("help of a value", ("terminal length ?\\", "0"), r"  <0-512>  Number of lines on screen \(0 for no pausing\)\n"),
    ("help for the unknown", ("show frob ?\\", "\x15\\"), r"% Unrecognized command\n"),
    ("tab", ("sh\t\\", "clock"), r"r1#sh\nr1#show clock\n\*\d\d"),
    ("tab, ambiguous", ("co\t\\", "nfigure confirm"), r"r1#co\nr1#configure confirm\n%No Rollback"),
    ("the line before", ("show privilege", UP, ""), r"(?s)level is 15.*level is 15"),
    ("two lines before", ("show clock", "show privilege", UP, UP, ""), r"(?s)UTC.*UTC"),
    ("up and down", ("show clock", "show privilege", UP, UP, DOWN, ""), r"(?s)level is 15.*level is 15"),
    ("left and insert", ("shw clock\\", *(LEFT,) * 7, "o"), r"UTC"),
    ("home and end", ("how clock\\", "\x01\\", "s"), r"UTC"),
    ("kill a word", ("show clockwork\x17\\", " clock"), r"UTC"),
    ("kill the line", ("rubbish\x15\\", "show clock"), r"UTC"),
    ("history", ("show clock", "show history"), r"show history\n  show clock\n  show history\n"),
    ("history size", ("terminal history size 1", "show clock", "show history"), r"show history\n  show history\nr1#"),
    ("terminal settings", ("terminal no editing", "terminal exec prompt timestamp"), r"editing\nr1#.*timestamp\nr1#"),
    ("show terminal", ("terminal width 100", "show terminal"), r"Width: 100 columns"),
    # Files.
    ("dir", ("dir",), r"Directory of bootflash:/"),
    ("dir of the root", ("dir /",), r"Directory of bootflash:/\n"),
    ("dir of nvram", ("dir nvram:",), r"startup-config"),
    ("dir of all", ("dir /all",), r"Directory of bootflash:/"),
    ("dir of what is not there", ("dir bootflash:none",), r"%Error opening bootflash:/none \(No such file"),
    ("pwd and cd", ("mkdir bootflash:d", "", "cd bootflash:d", "pwd"), r"pwd\nbootflash:d\n"),
    ("copy to a name", ("copy running-config kept.cfg", "", "dir kept.cfg"),
     r"Destination filename \[kept\.cfg\]\? [\s\S]*bytes copied in [\s\S]*kept\.cfg\n"),
    ("copy to startup", ("copy running-config startup-config", ""), r"\[OK\]"),
    ("write", ("write",), r"Building configuration\.\.\.\n\[OK\]"),
    ("write memory", ("wr mem",), r"\[OK\]"),
    ("write terminal", ("write terminal",), r"Current configuration : \d+ bytes"),
    ("write erase", ("write erase", "\r\\", "show startup-config"), r"Erase of nvram: complete[\s\S]*not present"),
    ("delete", ("show clock | redirect bootflash:t", "delete bootflash:t", "", "\r\\", "dir bootflash:t"),
     r"Delete filename \[t\]\? [\s\S]*No such file"),
    ("verify", ("show clock | redirect bootflash:t", "verify /md5 bootflash:t"),
     r"verify /md5 \(bootflash:t\) = [0-9a-f]{32}"),
    ("more of what is not there", ("more bootflash:none",), r"No such file"),
    ("rename", ("show clock | redirect bootflash:t", "rename bootflash:t bootflash:u", "", "dir bootflash:u"), r" u\n"),
    # Reaching others.
    ("ping", ("ping 127.0.0.1 repeat 1",), r"Success rate is 100 percent \(1/1\)"),
    ("ping ip", ("ping ip 127.0.0.1 repeat 1",), r"Success rate is 100 percent \(1/1\)"),
    ("ping dialogue", ("ping", "", "127.0.0.1", "1", "", "1", "", ""),
     r"Protocol \[ip\]: \nTarget IP address: 127[\s\S]*Sweep range of sizes \[n\]: \n[\s\S]*\(1/1\)"),
    ("ping of a name", ("ping nowhere.example",), r"% Unrecognized host or address"),
    ("traceroute", ("traceroute 127.0.0.1",), r"Tracing the route to 127\.0\.0\.1[\s\S]*  1 127\.0\.0\.1 \d+ msec"),
    ("traceroute dialogue", ("traceroute", "", "127.0.0.1", *("",) * 9), r"Probe count \[3\]: [\s\S]*  1 127\.0\.0\.1"),
    ("telnet", ("telnet 192.0.2.1",), r"Trying 192\.0\.2\.1 \.\.\. \n% Connection refused by remote host"),
    ("ssh", ("ssh -l admin 192.0.2.1",), r"% Connection refused by remote host"),
    # Sessions.
    ("show users", ("show users",), r"\* +\d+ vty 0 +ferry"),
    ("who", ("who",), r"\* +\d+ vty 0"),
    ("where", ("where",), r"% No connections open"),
    ("disable and enable", ("disable", "show privilege", "enable", "e", "show privilege"),
     r"level is 1\n[\s\S]*level is 15"),
    ("a bad secret", ("disable", "enable", "x", "x", "x"), r"% Bad secrets"),
    ("debug", ("debug ip icmp", "undebug all"), r"debugging is on\n[\s\S]*All possible debugging has been turned off"),
    ("no debug", ("no debug all",), r"All possible debugging has been turned off"),
    ("clear counters", ("clear counters", "\r\\"), r"Clear \"show interface\" counters on all interfaces \[confirm\]"),
    ("clear logging", ("clear logging", "\r\\"), r"Clear logging buffer \[confirm\]"),
    # Restarts.
    ("show reload", ("show reload",), r"No reload is scheduled\."),
    ("reload in", ("reload in 30", "\r\\", "show reload"),
     r"Reload scheduled for .* \(in 30 minutes\)[\s\S]*Reload scheduled"),
    ("reload at", ("reload at 03:00", "\r\\", "show reload"), r"Reload scheduled for 03:00:00 UTC"),
    ("reload cancel", ("reload in 2:00", "\r\\", "reload cancel", "show reload"),
     r"\(in 2 hours and 0 minutes\)[\s\S]*SHUTDOWN ABORTED[\s\S]*No reload is scheduled"),
    ("reload, no", ("reload", "n\\"), r"Proceed with reload\? \[confirm\]n?\nr1#"),
    # Tcl.
    ("tclsh", ("tclsh", 'puts "hello"', "tclquit"), r"r1\(tcl\)#puts \"hello\"\nhello\nr1\(tcl\)#tclquit\nr1#"),
    ("a file by tclsh", ("tclsh", 'puts [open "bootflash:f.cfg" w+] {hostname x', "end}", "tclquit",
     "more bootflash:f.cfg"),
     r"\+>end\}\nr1\(tcl\)#[\s\S]*more bootflash:f\.cfg\nhostname x\nend\n"),
    ("a loop by tclsh", ("tclsh", "foreach a {127.0.0.1} {", "ping $a repeat 1", "}", "tclquit"), r"\(1/1\)"),
    # Configuration.
    ("configure", ("conf t",), r"one per line\.  End with CNTL/Z\.\nr1\(config\)#"),
    ("end", ("conf t", "interface Gi2", "end"), r"\(config-if\)#end\nr1#"),
    ("exit", ("conf t", "interface Gi2", "exit", "exit"), r"\(config-if\)#exit\nr1\(config\)#exit\nr1#"),
    ("Ctrl-Z", ("conf t", "hostname r1\x1a\\"), r"hostname r1\^Z\nr1#"),
    ("do", ("conf t", "do show clock"), r"do show clock\n\*\d\d"),
    ("do, wrong", ("conf t", "do show clok"), r"r1\(config\)#do show clok\n {22}\^\n"),
    ("an unknown line", ("conf t", "frob 1"), rf"\(config\)#frob 1{CARET}"),
    ("a number out of range", ("conf t", "ip tcp window-size 1"), r"\(config\)#ip tcp window-size 1\n {30}\^\n"),
    ("an interface with a blank", ("conf t", "interface GigabitEthernet 2", "description x", "do show run int gi2"),
     r"interface GigabitEthernet2\n description x\n"),
    ("a range", ("conf t", "interface range GigabitEthernet1 - 2", "description both", "do show run | count both"),
     r"\(config-if-range\)#[\s\S]*regexp = 2"),
    ("no such interface", ("conf t", "interface GigabitEthernet99"), CARET),
    ("a loopback", ("conf t", "int lo7", "ip address 192.0.2.7 255.255.255.255", "do show ip int brief | i Loopback7"),
     r"Loopback7 +192\.0\.2\.7"),
    ("default of an interface", ("conf t", "int gi2", "description x", "default interface gi2"),
     r"Interface GigabitEthernet2 set to default configuration"),
    ("a wrong line of a section", ("conf t", "router ospf 1", "frob"), rf"\(config-router\)#frob{CARET}"),
    ("from section to section", ("conf t", "router ospf 1", "interface Gi2"),
     r"\(config-router\)#.*\nr1\(config-if\)#"),
    ("a section within a section", ("conf t", "policy-map P", "class class-default", "police cir 8000"),
     r"\(config-pmap-c\)#police cir 8000\nr1\(config-pmap-c-police\)#"),
    ("an access list", ("conf t", "ip access-list extended A", "permit tcp any host 192.0.2.1 eq ftp",
     "do show access-lists"),
     r"Extended IP access list A\n    10 permit tcp any host 192\.0\.2\.1 eq ftp\n"),
    ("a wrong entry", ("conf t", "ip access-list extended A", "permit tcp any anyone"),
     r"permit tcp any anyone\n {38}\^\n"),
    ("a standard list", ("conf t", "access-list 7 permit 10.0.0.0 0.0.0.255", "do show access-lists 7"),
     r"Standard IP access list 7\n    10 permit 10\.0\.0\.0, wildcard bits 0\.0\.0\.255\n"),
    ("privilege of a user alone", ("conf t", "username bob secret x", "username bob privilege 5", "do sh run | i bob"),
     r"username bob privilege 5 secret 9 \$9\$"),
    ("no boot system", ("conf t", "boot system bootflash:a.bin", "boot system bootflash:b.bin", "no boot system",
                        "do show run | count boot system"), r"regexp = 0"),
    ("a banner", ("conf t", "banner motd #", "hello", "#", "do show banner motd"),
     r"Enter TEXT message\.[\s\S]*\nhello\n"),
    ("an alias", ("conf t", "alias exec ct show clock", "end", "ct"), r"r1#ct\n\*\d\d"),
    ("help of a section", ("conf t", "interface Gi2", "ip ?\\", "address 192.0.2.9 255.255.255.0"),
     r"  address +Address\n"),
    ("a line with no and default", ("conf t", "ip tcp synwait-time 9", "default ip tcp synwait-time",
     "do sh run | c synwait"),
     r"regexp = 0"),
    ("a route", ("conf t", "ip route 10.0.0.0 255.0.0.0 198.18.1.1", "do show ip route 10.1.1.1"),
     r"Routing entry for 10\.0\.0\.0/8\n  Known via \"static\", distance 1, metric 0\n"),
    ("a route to nowhere", ("show ip route 203.0.113.1",), r"% Network not in table"),
    ("facts by SNMP", ("conf t", "snmp-server location here", "do show snmp location"), r"snmp location\nhere\n"),
    ("an entry taken out", ("conf t", "ip access-list extended A", "permit ip any any", "no permit ip any any",
                            "do show ip access-lists"), r"access list A\nr1"),
    ("technical support", ("show tech-support | include --- show version",), r"-{18} show version -{18}\n"),
)  # fmt: skip
