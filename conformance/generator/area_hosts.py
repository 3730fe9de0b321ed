"""Area ``hosts``: what stands between scheme and path, and when two spellings are one place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from conformance.generator.case import Case, failure
from conformance.generator.standard import ENTRIES, SOURCE, refused_and_reported

AREA = "hosts"
_SECTION = "hosts-and-buckets"
_PREFIXES = "authorisation"
_NOT_ALLOWED = "location_not_allowed"
# Of a server that is not there: whoever asks it has taken the location for an authorised one.
_NO_SERVER = ["source_error", "source_not_found", "source_access_denied"]


def cases() -> Iterator[Case]:
    """Yield the cases of the area."""
    for name, url, description in _REFUSED:
        yield from refused_and_reported(
            f"{AREA}/{name}",
            _SECTION,
            f"{description} It is refused, before anybody is asked.",
            "invalid_path",
            manifest={"0": ENTRIES["0"], "1": {"path": url}},
            reported=name in _REPORTED,
            chunk="1",
        )
    yield from _files()
    yield from _the_same()
    yield from _not_the_same()
    yield from _memory()


def _case(
    name: str,
    description: str,
    path: str,
    *allow: str,
    section: str = _PREFIXES,
    needs: Sequence[str] = (),
) -> Case:
    """Both chunks in one source outside of the hierarchy's store."""
    options: dict[str, Any] = {"allow": [{"prefix": prefix} for prefix in allow]} if allow else {}
    case = Case(f"{AREA}/{name}", section, description, needs=needs, **options)
    return case.array(manifest={key: {**entry, "path": path} for key, entry in ENTRIES.items()})


def _files() -> Iterator[Case]:
    for name, path, description in (
        ("file-with-one-slash", "file:@SOURCES_PATH@/data.bin",
         "A file URL may have no authority at all: RFC 8089 writes file:/data."),
        ("file-of-localhost-in-capitals", "file://LOCALHOST@SOURCES_PATH@/data.bin",
         "Hosts have no case: LOCALHOST is this host as well."),
    ):  # fmt: skip
        case = _case(name, f"{description} It is read.", path, "@SOURCES@/", section=_SECTION)
        yield case.source("data.bin", SOURCE).reads()


def _the_same() -> Iterator[Case]:
    for name, prefix, path, description in (
        ("scheme-in-capitals", "HTTP://localhost:1/x/", "http://localhost:1/x/data.bin",
         "Schemes have no case, in prefixes either."),
        ("host-in-capitals", "http://localhost:1/x/", "http://LocalHost:1/x/data.bin",
         "Hosts have no case."),
        ("default-port-of-http", "http://localhost/x/", "http://localhost:80/x/data.bin",
         "The scheme's default port is no port."),
        ("default-port-of-https", "https://localhost:443/x/", "https://localhost/x/data.bin",
         "The default port of https is 443, in prefixes as well."),
        ("empty-port", "http://localhost/x/", "http://localhost:/x/data.bin",
         "A colon without a port is no port."),
        ("ipv6-in-full", "http://[::1]:1/x/", "http://[0:0:0:0:0:0:0:1]:1/x/data.bin",
         "IPv6 addresses are compared as addresses, however long they are written."),
        ("ipv4-within-ipv6", "http://[::ffff:7f00:1]:1/", "http://[::ffff:127.0.0.1]:1/data.bin",
         "An IPv6 address that ends like one of IPv4 is the IPv6 address that it stands for."),
        ("port-with-zeros", "http://localhost:1/", "http://localhost:001/data.bin",
         "Ports are numbers, with zeros before them or not."),
        ("ipv6-in-capitals", "http://[::FFFF:7F00:1]:1/", "http://[::ffff:7f00:1]:1/data.bin",
         "The digits of IPv6 addresses have no case."),
    ):  # fmt: skip
        yield _case(
            name,
            f"{description} The prefix covers the location, so that what fails is the request: "
            "there is no such server.",
            path,
            prefix,
            needs=["http"],
        ).refuses(_NO_SERVER, "chunk")
    yield (
        _case(
            "prefix-with-dot-segments",
            "Dot segments of prefixes are resolved, like those of locations.",
            "@SOURCES@/x/data.bin",
            "@SOURCES@/y/.././x/",
        )
        .source("x/data.bin", SOURCE)
        .reads()
    )
    yield (
        _case(
            "prefix-with-escapes",
            "Escapes of prefixes are decoded, like those of locations: %78 is x.",
            "@SOURCES@/x/data.bin",
            "@SOURCES@/%78/",
        )
        .source("x/data.bin", SOURCE)
        .reads()
    )
    yield (
        _case(
            "url-into-the-hierarchy-that-is-authorised",
            "An absolute URL that leads into the hierarchy is read if it is authorised.",
            "@HIERARCHY@/a/data.bin",
            "@HIERARCHY@/a/",
        )
        .put("a/data.bin", SOURCE)
        .reads()
    )


def _not_the_same() -> Iterator[Case]:
    for name, prefix, path, description in (
        ("alias-of-a-scheme", "gs://bucket/", "gcs://bucket/data.bin",
         "Schemes that mean the same store are different schemes: gs does not cover gcs."),
        ("https-is-not-http", "http://localhost:1/", "https://localhost:1/data.bin",
         "A prefix of http covers nothing of https, where another server may answer."),
        ("another-port", "http://localhost/", "http://localhost:443/data.bin",
         "The default port of another scheme is a port like any other."),
        ("dot-after-a-host", "http://localhost:1/", "http://localhost.:1/data.bin",
         "A dot at the end of a host is part of it: it is resolved in another way."),
        ("ipv4-is-not-ipv6", "http://127.0.0.1:1/", "http://[::ffff:127.0.0.1]:1/data.bin",
         "An IPv6 address is none of IPv4, although it may lead to the same server."),
        ("another-bucket", "s3://bucket/", "s3://bucket2/data.bin",
         "A bucket whose name begins like another one's is another bucket."),
        ("another-container", "abfs://x@account/", "abfs://y@account/data.bin",
         "What is before the @ of abfs is the container, and none covers another one."),
        ("container-of-another-account", "abfs://x@account/", "abfs://x@account2/data.bin",
         "A container of the same name in another account is another container."),
    ):  # fmt: skip
        case = _case(name, f"{description} The location is refused.", path, prefix)
        yield case.refuses(_NOT_ALLOWED, "manifest")
    yield _case(
        "container-of-abfs",
        "The container before the @ of abfs is no user information: the URL is valid, and not "
        "authorised.",
        "abfss://container@account.dfs.core.windows.net/data.bin",
        section=_SECTION,
    ).refuses(_NOT_ALLOWED, "manifest")
    yield (
        _case(
            "url-into-the-hierarchy",
            "An absolute URL needs authorisation even if it leads into the hierarchy: it is valid "
            "on one machine only.",
            "@HIERARCHY@/a/data.bin",
        )
        .put("a/data.bin", SOURCE)
        .refuses(_NOT_ALLOWED, "manifest")
    )


def _memory() -> Iterator[Case]:
    says = "Nobody else has what lies in the memory of one process: memory is no scheme of stored "
    case = _case("memory", f"{says}data, though a reader may know it.", "memory://x/data.bin")
    either = [failure("invalid_path", "manifest"), failure(_NOT_ALLOWED, "manifest")]
    yield case.ask("read", {"array": "a", "selection": None}, {"any_of": either})


# Name, path of chunk 1, description.
_REFUSED: list[tuple[str, str, str]] = [
    ("ipv4-in-brackets", "http://[127.0.0.1]/data.bin", "Brackets hold IPv6 addresses only."),
    ("ipv6-with-a-zone", "http://[fe80::1%25eth0]/data.bin",
     "A zone id means something on one machine only."),
    ("ipv6-too-long", "http://[1:2:3:4:5:6:7:8:9]/data.bin", "An IPv6 address has eight numbers."),
    ("ipv6-with-two-gaps", "http://[1::2::3]/data.bin",
     "An address in which :: stands twice is ambiguous."),
    ("ipv6-without-an-end", "http://[::1/data.bin", "A bracket that opens must close."),
    ("brackets-around-nothing", "http://[]/data.bin", "Brackets hold an address."),
    ("two-numbers", "http://127.1/data.bin", "Browsers take 127.1 for 127.0.0.1, others do not."),
    ("one-number", "http://2130706433/data.bin",
     "Browsers take 2130706433 for 127.0.0.1, others do not."),
    ("hexadecimal-number", "http://0x7f.1/data.bin",
     "Browsers take 0x7f.1 for 127.0.0.1, others do not."),
    ("octal-number", "http://0177.0.0.1/data.bin",
     "0177 is 127 for some, 177 for others, and nothing for the rest."),
    ("number-above-255", "http://127.0.0.256/data.bin", "The numbers of an address end at 255."),
    ("five-numbers", "http://127.0.0.0.1/data.bin", "An IPv4 address has four numbers."),
    ("name-that-ends-in-a-number", "http://example.09/data.bin",
     "A host whose last label is a number is an address, and this one is none."),
    ("name-that-ends-in-0x", "http://example.0x/data.bin",
     "Browsers take 0x for a number, which a last label may only be in an address."),
    ("address-with-a-dot-at-the-end", "http://127.0.0.1./data.bin",
     "A dot at the end does not hide that the last label is a number."),
    ("file-without-a-slash", "file:data.bin", "A file URL has an absolute path."),
    ("container-with-a-password", "abfs://container:secret@account/data.bin",
     "A colon before the @ makes it user information, in abfs as well."),
    ("account-with-a-port", "abfs://container@account:1/data.bin", "Accounts have no port."),
    ("account-with-a-port-of-zeros", "abfss://container@account:0443/data.bin",
     "Accounts have no port, in any spelling."),
    ("container-of-az", "az://container@account/data.bin",
     "Only abfs and abfss have a container before an @."),
]  # fmt: skip
_REPORTED = ("ipv4-in-brackets", "two-numbers", "container-with-a-password")
