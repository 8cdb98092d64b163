"""PORT and EPRT: what they say, and where a client is called."""

from ipaddress import ip_address

import pytest

from ftpserver.listeners import DataPlace, ProtocolUnsupported, parse_eprt, parse_port, ports_in_random_order


def test_port_names_address_and_port() -> None:
    """Six numbers: the address, then the port's high byte and low byte."""
    assert parse_port("192,0,2,7,4,1") == DataPlace(address=ip_address("192.0.2.7"), port=1025)


@pytest.mark.parametrize(
    "text",
    [
        *("", ",,,,,", "1,2", "1,2,3,4,5", "1,2,3,4,5,6,7", "256,0,0,1,4,1", "1,2,3,4,5,256", "1,2,3,4,-5,6"),
        *("1,2,3,4, 5,6", "1,2,3,4,5,\u0666", "1,2,3,4,5,6_0", "x"),
    ],
)
def test_a_malformed_port_is_refused(text: str) -> None:
    """Whatever is not six plain numbers of 0 to 255 is no place."""
    with pytest.raises(ValueError, match="expected"):
        parse_port(text)


@pytest.mark.parametrize(
    ("text", "version", "address"),
    [("|1|192.0.2.7|6446|", 4, "192.0.2.7"), ("!2!2001:db8::1!6446!", 6, "2001:db8::1")],
)
def test_eprt_names_address_and_port(text: str, version: int, address: str) -> None:
    """Any delimiter serves; the protocol is the one the client came by."""
    assert parse_eprt(text, version) == DataPlace(address=ip_address(address), port=6446)


@pytest.mark.parametrize(("text", "version"), [("|2|::1|5000|", 4), ("|1|127.0.0.1|5000|", 6), ("|9|::|1|", 4)])
def test_another_protocol_is_told_from_a_malformed_one(text: str, version: int) -> None:
    """It has a reply of its own, which names the protocol to use."""
    with pytest.raises(ProtocolUnsupported):
        parse_eprt(text, version)


@pytest.mark.parametrize(
    "text",
    [
        *("", "|", "||||", "|1|127.0.0.1|1", "1|127.0.0.1|5000", "|1|::1|5000|", "|1|127.0.0.1|65536|"),
        *("|1|127.0.0.1|-1|", "|1|127.0.0.1|x|", "|1|a|5000|", "|x|127.0.0.1|5000|", " 1 127.0.0.1 5000 "),
        *("|1|127.0.0.1|5000|x", "\xff1\xff"),
    ],
)
def test_a_malformed_eprt_is_refused(text: str) -> None:
    """Whatever is not protocol, address and port between four delimiters is no place."""
    with pytest.raises(ValueError, match=r"expected|unpack|appear"):
        parse_eprt(text, 4)


@pytest.mark.parametrize(
    ("address", "port", "said"),
    [
        ("192.0.2.7", 1024, ""),
        ("0.0.0.0", 1024, ""),
        ("192.0.2.8", 1024, "your own address"),
        ("192.0.2.7", 1023, "a port from 1024"),
    ],
)
def test_only_the_client_itself_is_called(address: str, port: int, said: str) -> None:
    """Another address, or a port where services listen, is refused: no bounce."""
    refusal = DataPlace(address=ip_address(address), port=port).refusal(ip_address("192.0.2.7"))
    assert said in refusal
    assert bool(refusal) is bool(said)


def test_a_wide_passive_range_is_walked_as_it_comes() -> None:
    """Each port once, in an order that differs, and the first without looking at all the others."""
    orders = [list(ports_in_random_order(50_000, 50_099)) for _ in range(5)]
    assert all(sorted(order) == list(range(50_000, 50_100)) for order in orders)
    assert len({tuple(order) for order in orders}) > 1
    assert list(ports_in_random_order(4000, 4000)) == [4000]
    assert 1024 <= next(ports_in_random_order(1024, 65535)) <= 65535
