from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpipe.errors import InvalidName
from rocketpipe.model.host import Host

HOSTS = st.builds(
    Host,
    st.binary(min_size=4, max_size=4) | st.binary(min_size=16, max_size=16),
    st.integers(0, 65535),
)


@given(HOSTS)
def test_a_host_is_the_same_after_text_and_bytes(host: Host) -> None:
    assert Host.parse(str(host)) == host
    assert Host.unpack(host.pack()) == host
    assert len(host.pack()) == (20 if host.is_v6 else 8)


def test_the_text_is_what_operators_write() -> None:
    assert str(Host(bytes([10, 0, 0, 1]), 10911)) == "10.0.0.1:10911"
    assert str(Host(bytes(15) + b"\x01", 10911)) == "[::1]:10911"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "10.0.0.1",
        "10.0.0.1:",
        ":10911",
        "10.0.0.1:x",
        "10.0.0.1:65536",
        "10.0.0.1:-1",
        "10.0.0.256:1",
        "localhost:1",
        "::1:1",
        "[10.0.0.1]:1",
        "[::1:1",
        "10.0.0.1:٣",
        "x" * 10_000,
    ],
)
def test_what_is_not_ip_and_port_is_refused(text: str) -> None:
    with pytest.raises(InvalidName) as caught:
        Host.parse(text)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("size", [0, 7, 9, 16, 19, 21, 100])
def test_packed_hosts_of_another_length_are_refused(size: int) -> None:
    with pytest.raises(InvalidName, match="8 or 20 bytes"):
        Host.unpack(bytes(size))


def test_impossible_addresses_and_ports_are_refused() -> None:
    with pytest.raises(InvalidName, match="4 or 16"):
        Host(b"\x7f\x00\x00", 1)
    with pytest.raises(InvalidName, match="4 bytes"):
        Host(b"\x7f\x00\x00\x01", 1 << 31)


def test_a_negative_port_of_a_strange_record_is_kept() -> None:
    packed = b"\x0a\x00\x00\x01\xff\xff\xff\xff"
    assert Host.unpack(packed).pack() == packed
