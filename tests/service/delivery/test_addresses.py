"""Where webhooks may go: only to public addresses, whatever names and numbers stand for others."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import ConfigError
from headgate.service.delivery.addresses import Forbidden, check_url, checked_address, is_allowed, resolve
from headgate.service.targets_config import Webhooks

STRICT = Webhooks()
INSIDE = [
    "127.0.0.1", "127.8.8.8", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.0", "100.64.0.1",
    "224.0.0.1", "255.255.255.255", "198.18.0.1", "192.0.2.1", "240.0.0.1", "::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1",
    "fd12::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "2002:7f00:1::", "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe", "2001:db8::1", "not an address",
]  # fmt: skip


@pytest.mark.parametrize("address", INSIDE)
def test_an_address_that_is_not_public_is_refused(address) -> None:
    assert not is_allowed(address, STRICT)


@pytest.mark.parametrize(
    "address", ["93.184.216.34", "1.1.1.1", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"]
)
def test_a_public_address_is_allowed(address) -> None:
    assert is_allowed(address, STRICT)


def test_an_operator_may_allow_a_network_and_no_more() -> None:
    policy = Webhooks(networks=(ipaddress.ip_network("10.1.0.0/16"),))
    assert is_allowed("10.1.2.3", policy)
    assert is_allowed("::ffff:10.1.2.3", policy)
    assert not is_allowed("10.2.0.1", policy)
    assert not is_allowed("127.0.0.1", policy)


@given(st.ip_addresses(v=4))
def test_an_address_inside_another_is_judged_like_itself(ip) -> None:
    plain = is_allowed(str(ip), STRICT)
    number = int(ip)
    mapped = ipaddress.IPv6Address((0xFFFF << 32) | number)
    nat64 = ipaddress.IPv6Address((0x64FF9B << 96) | number)
    sixtofour = ipaddress.IPv6Address((0x2002 << 112) | (number << 80))
    assert [is_allowed(str(one), STRICT) for one in (mapped, nat64, sixtofour)] == [plain] * 3


@pytest.mark.parametrize("host", ["localhost", "0x7f.1", "2130706433", "127.1", "0177.0.0.1"])
def test_whatever_stands_for_this_machine_is_found_when_it_is_resolved(host) -> None:
    try:
        with pytest.raises(Forbidden, match="not public"):
            checked_address(host, 443, STRICT, resolve)
    except ConnectionError:
        pass  # the system does not read it as an address, so nobody is reached


def test_one_inner_address_among_public_ones_is_enough() -> None:
    with pytest.raises(Forbidden):
        checked_address("trick.example", 443, STRICT, lambda host, port: ["1.1.1.1", "10.0.0.1"])
    assert (
        checked_address("good.example", 443, STRICT, lambda host, port: ["1.1.1.1", "1.0.0.1"]) == "1.1.1.1"
    )


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://example.com/", "https://"),
        ("ftp://example.com/", "https://"),
        ("file:///etc/passwd", "https://"),
        ("https://ann:secret@example.com/", "user or a password"),
        ("https://1.1.1.1@127.0.0.1/", "user or a password"),
        ("https:///path", "no host"),
        ("https://example.com:0/", "port 0"),
        ("https://example.com:99999/", "cannot be read"),
        ("https://[::1/", "cannot be read"),
        ("https://example.com/#part", "fragment"),
        ("https://example.com/a b", "encoded"),
        ("https://example.com\\@127.0.0.1/", "encoded"),
        ("https://example.com/\r\nHost: other", "encoded"),
        ("https://ex\u00e4mple.com/", "encoded"),
        ("https://example.com/" + "x" * 3000, "at most"),
        ("", "url"),
        (None, "url"),
    ],
)
def test_a_url_that_is_not_one_of_a_webhook_is_refused(url, why) -> None:
    with pytest.raises(ConfigError, match=why):
        check_url(url, STRICT)


def test_hosts_are_those_that_the_operator_allows() -> None:
    policy = Webhooks(hosts=("*.example.com", "one.org"))
    assert check_url("https://HOOKS.example.com./x?y=1", policy).path == "/x?y=1"
    assert check_url("https://one.org:8443", policy).authority == "one.org:8443"
    for host in ("example.com.evil.org", "two.org", "evilexample.com", "1.1.1.1"):
        with pytest.raises(ConfigError, match="not allowed"):
            check_url(f"https://{host}/", policy)
