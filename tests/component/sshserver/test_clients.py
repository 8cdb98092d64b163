"""Clients that others made: each gets the image whole, and the record tells what it was."""

import asyncio
import io
import subprocess
from typing import TYPE_CHECKING

import asyncssh
import paramiko
import pytest
import scp

from flashferry.fileserver.ticket_accounts import SshOffer
from flashferry.sshserver import load_host_keys
from flashferry.sshserver.algorithms import CIPHERS, MACS
from tests.patience import PATIENCE_S

if TYPE_CHECKING:
    from conftest import Bench

_HERE = ("127.0.0.1",)


@pytest.mark.parametrize(
    "command", [("scp", "-O"), ("scp", "-O", "-p", "-v"), ("scp", "-O", "-r"), ("scp",), ("sftp",)]
)
def test_openssh(bench: "Bench", command: tuple[str, ...]) -> None:
    """SCP with its flags, and SFTP by both programs."""
    ticket = bench.ticket()
    run = bench.openssh(command, ticket)
    assert run.returncode == 0, run.stderr
    assert bench.got() == bench.content
    record = bench.delivered(ticket).record
    assert record is not None
    by = "scp" if "-O" in command else "sftp"
    assert (record.transport, record.outcome, record.client[:8]) == (by, "delivered", "OpenSSH_")
    assert record.channel_window_bytes is not None
    assert record.channel_window_bytes >= 1_000_000
    assert record.control_syn == record.data_syn
    assert record.control_syn is not None
    assert not any(ticket.username in line or ticket.password in line for line in record.commands)


def test_the_header_has_the_name_that_was_asked_for(bench: "Bench") -> None:
    """OpenSSH refuses another one; folders before it are nobody's business."""
    ticket = bench.ticket()
    run = bench.openssh(("scp", "-O"), ticket, name=f"/flash/../images/{bench.image_name}")
    assert run.returncode == 0, run.stderr
    assert bench.got() == bench.content


@pytest.mark.parametrize("command", [("scp", "-O"), ("scp",)])
def test_new_keys_in_mid_file(bench: "Bench", command: tuple[str, ...]) -> None:
    """A client that wants them every 64 kB gets them, and the file is whole."""
    ticket = bench.ticket()
    run = bench.openssh(command, ticket, "RekeyLimit=64K")
    assert run.returncode == 0, run.stderr
    assert bench.got() == bench.content
    bench.delivered(ticket)


@pytest.mark.soak
@pytest.mark.parametrize("bench", [{"size": 80_000_000}], indirect=True)
@pytest.mark.parametrize("command", [("scp", "-O"), ("scp",)])
def test_new_keys_in_a_large_file(bench: "Bench", command: tuple[str, ...]) -> None:
    """Some four times while everything is in flight."""
    ticket = bench.ticket()
    run = bench.openssh(command, ticket, "RekeyLimit=16M")
    assert run.returncode == 0, run.stderr
    assert bench.got() == bench.content
    bench.delivered(ticket)


def test_paramiko_and_scp_py(bench: "Bench") -> None:
    """What netmiko uses."""
    ticket = bench.ticket()
    transport = bench.paramiko(ticket)
    with scp.SCPClient(transport) as client:
        client.get(bench.image_name, str(bench.folder / "got.bin"))
    transport.close()
    assert bench.got() == bench.content
    bench.delivered(ticket)


@pytest.mark.parametrize("bench", [{"size": 3_000_000}], indirect=True)
@pytest.mark.parametrize("how", ["prefetch", "piece by piece", "as WinSCP"])
def test_paramiko_sftp(bench: "Bench", how: str) -> None:
    """All requests at once, one after the other, and with what a graphical client asks besides."""
    ticket = bench.ticket()
    transport = bench.paramiko(ticket)
    client = paramiko.SFTPClient.from_transport(transport)
    assert client is not None
    if how == "prefetch":
        got = io.BytesIO()
        client.getfo(bench.image_name, got)
        assert got.getvalue() == bench.content
    else:
        if how == "as WinSCP":
            assert client.normalize(".") == "/"
            assert client.listdir("/") == []
            assert client.stat("/" + bench.image_name).st_size == len(bench.content)
            assert client.lstat(bench.image_name).st_mode == 0o100444
            with pytest.raises(FileNotFoundError):
                client.stat("/other.bin")
        with client.open(bench.image_name) as file:
            assert file.stat().st_size == len(bench.content)
            assert file.read() == bench.content
    transport.close()
    assert bench.delivered(ticket).record is not None


def test_asyncssh_and_a_window_of_8_kb(bench: "Bench") -> None:
    """A small window of the channel, and small packets, are kept to, and told in the record."""
    ticket = bench.ticket()

    async def fetch() -> bytes:
        async with await bench.connect(ticket) as connection:
            process = await connection.create_process(
                f"scp -f {bench.image_name}", encoding=None, window=8192, max_pktsize=4096
            )
            process.stdin.write(b"\0")
            header = await process.stdout.readline()
            assert header == f"C0644 {len(bench.content)} {bench.image_name}\n".encode()
            process.stdin.write(b"\0")
            got = await process.stdout.readexactly(len(bench.content) + 1)
            process.stdin.write(b"\0")
            await process.wait_closed()
            assert process.exit_status == 0
            return bytes(got)

    assert asyncio.run(fetch()) == bench.content + b"\0"
    record = bench.delivered(ticket).record
    assert record is not None
    assert record.channel_window_bytes == 8192


@pytest.mark.parametrize("size", [1, 1023])
def test_a_maximum_packet_size_under_1_kib_is_refused(bench: "Bench", size: int) -> None:
    """The channel is refused with the size that is expected; another one on the same connection copies the image."""
    ticket = bench.ticket()

    async def fetch() -> bytes:
        async with await bench.connect(ticket) as connection:
            with pytest.raises(asyncssh.ChannelOpenError, match=f"expected at least 1024 bytes, found {size}"):
                await connection.create_process(f"scp -f {bench.image_name}", encoding=None, max_pktsize=size)
            sink = await bench.sink(connection, max_pktsize=1024)
            await sink.header()
            got = await sink.body(len(bench.content))
            sink.say()
            return bytes(got)

    assert asyncio.run(fetch()) == bench.content + b"\0"
    bench.delivered(ticket)


@pytest.mark.parametrize("cipher", [cipher for cipher in CIPHERS if cipher != "3des-cbc"])
@pytest.mark.soak
def test_every_cipher(bench: "Bench", cipher: str) -> None:
    """Offered alone by a ticket it is what the client takes, whatever it would rather have; the record names it."""
    ticket = bench.ticket(source_addresses=_HERE, ssh=SshOffer(encryption=(cipher,)))
    run = bench.openssh(("scp", "-O"), ticket, "Ciphers=+aes128-cbc,aes192-cbc,aes256-cbc")
    assert run.returncode == 0, run.stderr
    assert bench.got() == bench.content
    record = bench.delivered(ticket).record
    assert record is not None
    assert record.cipher == cipher
    assert bool(record.mac) is cipher.startswith("aes") & ("gcm" not in cipher)


@pytest.mark.parametrize("mac", MACS)
@pytest.mark.soak
def test_every_mac(bench: "Bench", mac: str) -> None:
    """The same; MD5 and the short SHA-1 where a ticket names them."""
    ticket = bench.ticket(source_addresses=_HERE, ssh=SshOffer(encryption=("aes128-ctr",), mac=(mac,)))
    run = bench.openssh(("scp", "-O"), ticket, "MACs=+hmac-md5,hmac-sha1-96")
    assert run.returncode == 0, run.stderr
    record = bench.delivered(ticket).record
    assert record is not None
    assert (record.cipher, record.mac) == ("aes128-ctr", mac)


_OLD = (
    "KexAlgorithms=diffie-hellman-group14-sha1",
    "HostKeyAlgorithms=ssh-rsa",
    "Ciphers=aes128-cbc",
    "MACs=hmac-sha1",
)


def test_an_old_device_is_served_where_a_ticket_says_so(bench: "Bench") -> None:
    """By group 14 with SHA-1, ssh-rsa, CBC and HMAC-SHA-1: all it has."""
    ticket = bench.ticket(source_addresses=_HERE, ssh=SshOffer(profile="legacy"))
    run = bench.openssh(("scp", "-O"), ticket, *_OLD)
    assert run.returncode == 0, run.stderr
    assert bench.got() == bench.content
    record = bench.delivered(ticket).record
    assert record is not None
    assert (record.cipher, record.mac) == ("aes128-cbc", "hmac-sha1")


@pytest.mark.parametrize("old", [*_OLD, "Ciphers=3des-cbc"])
@pytest.mark.soak
def test_nobody_else_is_offered_what_is_old(bench: "Bench", old: str) -> None:
    """Not a client from another address than the ticket's, and not behind the ticket's end; both lists are told."""
    elsewhere = bench.ticket(source_addresses=("127.0.0.9",), ssh=SshOffer(profile="legacy"))
    ticket = bench.ticket(source_addresses=_HERE)
    # A cipher that needs a MAC, or the list of those would not matter.
    run = bench.openssh(("scp", "-O"), ticket, old, *(["Ciphers=aes128-ctr"] if old.startswith("MACs") else []))
    assert run.returncode != 0
    assert "no matching" in run.stderr
    trouble = bench.until(ticket, lambda seen: bool(seen.last_error)).last_error
    assert trouble.startswith("SSH: no ")
    assert " in common: client " in trouble
    assert old.partition("=")[2] in trouble
    assert bench.server.progress(elsewhere.ticket_id).last_error == ""


@pytest.mark.parametrize(("profile", "digest"), [("modern", "sha256"), ("legacy", "sha1")])
def test_a_client_with_group_exchange_alone_comes_in_the_second_time(bench: "Bench", profile: str, digest: str) -> None:
    """Its first connection finds nothing in common and costs no try; one from another address is not concerned."""
    ticket = bench.ticket(source_addresses=_HERE, ssh=SshOffer(profile=profile))
    group = f"KexAlgorithms=diffie-hellman-group-exchange-{digest}"
    assert "no matching key exchange" in bench.openssh(("scp", "-O"), ticket, group).stderr
    bench.until(ticket, lambda seen: "no key exchange algorithm in common" in seen.last_error)
    run = bench.openssh(("scp", "-O"), ticket, group)
    assert run.returncode == 0, run.stderr
    assert bench.got() == bench.content


def test_a_client_that_prefers_group_exchange_is_spared_its_round_trip(bench: "Bench") -> None:
    """A CSR 16.8 and a C2960C name it before group 14."""
    ticket = bench.ticket(source_addresses=_HERE, ssh=SshOffer(profile="legacy"))
    prefers = "KexAlgorithms=diffie-hellman-group-exchange-sha1,diffie-hellman-group14-sha1"
    run = bench.openssh(("scp", "-O", "-v"), ticket, prefers)
    assert run.returncode == 0, run.stderr
    assert "kex: algorithm: diffie-hellman-group14-sha1" in run.stderr


def test_the_end_of_a_ticket_is_the_end_of_what_it_offers(bench: "Bench") -> None:
    """Delivered, it offers nothing old any more."""
    first = bench.ticket(source_addresses=_HERE, ssh=SshOffer(profile="legacy"))
    assert bench.openssh(("scp", "-O"), first, *_OLD).returncode == 0
    bench.delivered(first)
    assert bench.openssh(("scp", "-O"), bench.ticket(source_addresses=_HERE), *_OLD).returncode != 0


def test_a_cipher_that_is_not_known_is_told(bench: "Bench") -> None:
    """Nothing is served, rather than something else than what is to be measured."""
    ticket = bench.ticket(source_addresses=_HERE, ssh=SshOffer(encryption=("rot13",)))
    assert bench.openssh(("scp", "-O"), ticket).returncode != 0
    seen = bench.until(ticket, lambda seen: bool(seen.last_error))
    assert seen.last_error.startswith("SSH: expected a cipher of ")


@pytest.mark.parametrize(
    ("asked", "kind"), [("rsa", "ssh-rsa"), ("ecdsa", "ecdsa-sha2-nistp256"), ("ed25519", "ssh-ed25519")]
)
def test_clients_see_the_keys_that_are_kept(bench: "Bench", asked: str, kind: str) -> None:
    """Of each kind the one whose fingerprint is shown."""
    command = ["ssh-keyscan", "-t", asked, "-p", str(bench.port), "127.0.0.1"]
    scan = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True).stdout
    key = asyncssh.import_public_key(scan.partition(" ")[2])
    ours = {key.algorithm: key.sha256 for key in load_host_keys(bench.keys)}
    assert (key.get_algorithm(), key.get_fingerprint()) == (kind, ours[kind])


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONWARNINGS", "error::UserWarning")


def test_old_exchanges_outlive_warnings_of_them(strict: None, bench: "Bench") -> None:
    """The library warns that they are to go: that is for us to read, not for a device to fail by."""
    ticket = bench.ticket(source_addresses=_HERE, ssh=SshOffer(profile="legacy"))
    run = bench.openssh(("scp", "-O"), ticket, *_OLD)
    assert run.returncode == 0, run.stderr
