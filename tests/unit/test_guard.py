from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from procession.outbound.faults import AddressRefused
from procession.outbound.guard import Guard, networks, origin, target, unwrapped


def words(text):
    return text.split()


REFUSED = words(
    r"""
    0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.127.255.255 127.0.0.1 127.255.255.254
    168.63.129.16 169.254.0.1 169.254.169.254 172.16.0.1 172.31.255.255 192.0.0.1 192.0.0.8
    192.0.2.1 192.88.99.1 192.168.0.1 192.168.255.255 198.18.0.1 198.19.255.255 198.51.100.1
    203.0.113.1 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255 :: ::1 ::7f00:1 ::808:808
    ::ffff:0:7f00:1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:a9fe:a9fe 64:ff9b::7f00:1
    64:ff9b::808:808 64:ff9b:1::1 100::1 100:0:0:1::1 5f00::1 fc00::1 fd12:3456::1 fe80::1
    febf::1 fec0::1 ff02::1 2001::1 2001:0:808:808:: 2001:2::1 2001:10::1 2001:20::1 2001:30::1
    2001:1ff:ffff::1 2001:db8::1 2002:7f00:1:: 2002:808:808::1 3fff::1 3fff:fff::1
    2606:4700::5efe:7f00:1 2606:4700::200:5efe:808:808 4000::1 1fff:ffff::1 e000::1
    """
)

ALLOWED = words(
    r"""
    1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.1 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.1
    168.63.129.15 168.63.129.17 169.253.255.255 169.255.0.1 172.15.255.255 172.32.0.1 192.0.1.1
    192.88.98.1 192.167.255.255 192.169.0.1 198.17.255.255 198.20.0.1 223.255.255.255 2000::1
    2606:4700:4700::1111 2001:200::1 2001:4860:4860::8888 2003::1 3ffe:ffff::1 ::ffff:8.8.8.8
    """
)


@pytest.mark.parametrize("address", REFUSED)
def test_an_address_that_leads_inside_is_refused(address):
    with pytest.raises(AddressRefused):
        Guard().judge("example.com", [address])


@pytest.mark.parametrize("address", ALLOWED)
def test_an_address_of_the_open_internet_is_dialled(address):
    assert Guard().judge("example.com", [address]) == [str(unwrapped(ip_address(address)))]


def test_a_mapped_address_is_dialled_as_what_it_is():
    assert Guard().judge("example.com", ["::ffff:8.8.8.8"]) == ["8.8.8.8"]


def test_one_refused_answer_refuses_all():
    with pytest.raises(AddressRefused):
        Guard().judge("example.com", ["8.8.8.8", "127.0.0.1"])


@pytest.mark.parametrize("address", ["fe80::1%eth0", "2606:4700::1%1", "not an address"])
def test_an_answer_that_is_no_plain_address_is_refused(address):
    with pytest.raises(AddressRefused):
        Guard(networks("::/0")).judge("example.com", [address])


@pytest.mark.parametrize(
    ("allowed", "address", "permitted"),
    [
        ("127.0.0.0/8", "127.0.0.1", True),
        ("127.0.0.0/8", "::ffff:127.0.0.1", True),
        ("127.0.0.0/8", "10.0.0.1", False),
        ("127.0.0.0/8, ::1/128", "::1", True),
        ("::1/128", "127.0.0.1", False),
        ("64:ff9b::/96", "64:ff9b::808:808", True),
        ("64:ff9b::/96", "64:ff9b::7f00:1", False),
        ("64:ff9b::/96,127.0.0.0/8", "64:ff9b::7f00:1", True),
        ("::/0", "64:ff9b::a00:1", False),
        ("::/0", "fd00::1", True),
    ],
)
def test_what_the_operator_allows_is_allowed(allowed, address, permitted):
    guard = Guard(networks(allowed))

    assert guard.permits(unwrapped(ip_address(address))) is permitted


@pytest.mark.parametrize("text", ["127.0.0.1/8", "localhost", "10.0.0.0/33", "::1/129", "1.2.3"])
def test_what_is_no_network_is_no_setting(text):
    with pytest.raises(ValueError, match=r".+"):
        networks(text)


ODD = words(
    r"""
    http://2130706433/ http://0x7f.1/ http://0x7f000001/ http://0177.0.0.1/ http://127.1/
    http://127.0.1/ http://0/ http://127.0.0.1./ http://127.0.0.1.:80/ http://017700000001/
    http://0X7F.0.0.1/ http://1.2.3.4.5/ http://256.1.1.1/ http://example.0x1/ http://example.1/
    http://127。1/ http://[fe80::1%25eth0]/ http://[fe80::1%eth0]/ http://[::1%25]/
    http://[::1]x/ http://[::1/ http://ann@example.com/ http://ann:pw@example.com/
    http://@example.com/ http://:@example.com/ http://a\@example.com/ http://exa%6dple.com/
    http://example.com%00.evil/ http://example.com:99999/ ftp://example.com/ file:///etc/passwd
    //example.com/ /hooks example.com http:example.com http:/example.com http:// https:///x
    http://:80/ javascript:alert(1) http://[::ffff:127.0.0.1%251]/ http://example.com:0/
    http://example.com:-1/ http://example.com:+80/ http://example.com:1:2/ http://[::1]:-1/ http://example.com:000080/
    """
)


@pytest.mark.parametrize("url", [*ODD, "http://example.com:\uff18\uff10/"])
def test_an_address_that_can_be_read_in_two_ways_is_refused(url):
    with pytest.raises(AddressRefused):
        target(url)


def test_white_space_and_other_digits_in_an_address_are_refused():
    for url in (
        "http://\uff11\uff12\uff17.0.0.1/",
        " http://example.com/",
        "http://example.com /",
        "http://exam\tple.com/",
        "http://a\n/",
    ):
        with pytest.raises(AddressRefused):
            target(url)


def test_a_refusal_names_the_host_and_no_more():
    for url in (
        "http://ann:secret@0x7f.1:8080/path?token=abc",
        "http://0x7f.1:se/cret@example.com/",
        "http://ann:secret@0x7f.1:secret",
    ):
        with pytest.raises(AddressRefused) as refused:
            target(url)

        assert str(refused.value) == "AddressRefused: 0x7f.1"


SECRET_IN = [
    "https://user:hunter2@/hook",
    "https://user:hunter2@:443/hook",
    "https://hunter2@ host/",
    "https://user:hunter2@\\x/",
    "https://user:hunter2@[bad/",
    "https://user:hunter2@[::1%25lo]/",
    "https://user:hunter2@host/",
    "https://user:hunter2@h@:1/",
    "https://user:hunter2/pass@h/",
    "https://user:hunter2@{{data.Empty}}/hook",
    "https://hunter2\x7f@x",
    "https://user:hunter2@\u202e/",
    "https://user:a@hunter2/b@host/",
    "https://hunter2%2F%40host/",
    "https://hunter2%2Fpass@host/",
    "https://user%3Ahunter2%40host/",
    "https://hunter2%2540host/",
    "https://hunter2\uff20host/",
    "https:////user:hunter2@host/",
    "HTTPS://user:hunter2@host:99999/",
    "ftp://user:hunter2@host/",
    "hunter2",
    "hunter2://host",
]


@pytest.mark.parametrize("url", SECRET_IN)
def test_what_is_told_of_an_address_holds_no_user_info(url):
    with pytest.raises(AddressRefused) as refused:
        target(url)

    assert "hunter2" not in origin(url)
    assert "hunter2" not in str(refused.value)


@given(
    st.text(st.characters(exclude_characters="/?#")),
    st.text(st.characters(exclude_characters="/?#")),
    st.text(),
)
def test_no_user_info_is_told_whatever_else_is_written(before, behind, rest):
    url = f"https://{before}hunter2{behind}@{rest}"

    with pytest.raises(AddressRefused) as refused:
        target(url)

    assert "hunter2" not in origin(url) + str(refused.value)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("https://Example.com/hook?token=a", "https://example.com"),
        ("http://bücher.example:8080/ä", "http://bücher.example:8080"),
        ("http://[2606:4700::1]:99/x", "http://[2606:4700::1]:99"),
        ("http://0x7f.1/x", "http://0x7f.1"),
        ("http://ann:pw@example.com:99/x", "http://example.com"),
        ("https:///x", "https://"),
        ("nothing", "://"),
    ],
)
def test_of_an_address_the_origin_is_told(url, told):
    assert origin(url) == told


@pytest.mark.parametrize(
    ("url", "host", "port", "authority", "path"),
    [
        ("http://example.com", "example.com", 80, b"example.com", b"/"),
        ("https://example.com", "example.com", 443, b"example.com", b"/"),
        ("https://EXAMPLE.com:443/A?b=c#d", "example.com", 443, b"example.com", b"/A?b=c"),
        (
            "http://bücher.example:8080/ä",
            "xn--bcher-kva.example",
            8080,
            b"xn--bcher-kva.example:8080",
            b"/%C3%A4",
        ),
        ("http://127.0.0.1:9/x", "127.0.0.1", 9, b"127.0.0.1:9", b"/x"),
        ("http://127。0。0。1/", "127.0.0.1", 80, b"127.0.0.1", b"/"),
        ("http://[::1]:9/", "::1", 9, b"[::1]:9", b"/"),
        ("http://a_b-c.example/", "a_b-c.example", 80, b"a_b-c.example", b"/"),
    ],
)
def test_an_address_is_taken_apart_once(url, host, port, authority, path):
    aim = target(url)

    assert (aim.host, aim.port, aim.authority, aim.path) == (host, port, authority, path)
