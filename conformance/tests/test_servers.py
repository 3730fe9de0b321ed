"""The conformance runner's servers: truthful, unless a rule says otherwise; S3 with signatures."""

from __future__ import annotations

import gzip
import hashlib
import http.client
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import botocore.session
import obstore
import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials as BotocoreCredentials
from botocore.exceptions import ClientError
from hypothesis import given
from hypothesis import strategies as st
from obstore.exceptions import PermissionDeniedError
from obstore.store import HTTPStore, S3Store

from conformance.runner import signatures
from conformance.runner.errors import UsageError
from conformance.runner.exchanges import LAST_MODIFIED, Request, Rules, answer
from conformance.runner.signatures import Credentials
from conformance.runner.stage import Stage

DATA = bytes(range(100))
ETAG = f'"{hashlib.sha256(DATA).hexdigest()[:16]}"'
PAIR = Credentials("AKID", "the secret/+")
REGION = "eu-central-1"

type Start = Callable[..., str]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    bucket = tmp_path / "sources" / "bucket"
    bucket.mkdir(parents=True)
    for name in ("a.bin", "a b+c~ü&.bin", "empty.bin"):
        data = b"" if name == "empty.bin" else DATA
        (bucket.parent / name).write_bytes(data)
        (bucket / name).write_bytes(data)
    (tmp_path / "secret").write_bytes(b"outside")
    (bucket.parent / "link").symlink_to(tmp_path / "secret")
    return tmp_path


@pytest.fixture
def stage() -> Iterator[Stage]:
    stage = Stage()
    yield stage
    stage.stop()


@pytest.fixture
def start(stage: Stage, directory: Path) -> Start:
    def start(*rules: Mapping[str, Any], server: str = "http", **members: Any) -> str:
        stage.start({server: {"root": "sources", "rules": rules, **members}}, directory)
        return stage.origin(server)

    return start


class Answer:
    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.body = response.read()


def ask(origin: str, target: str = "/a.bin", method: str = "GET", **headers: str) -> Answer:
    with closing(http.client.HTTPConnection(origin.removeprefix("http://"))) as connection:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, target, headers=named)
        return Answer(connection.getresponse())


# ------------------------------------------------------------------ truth


def test_a_file(start: Start) -> None:
    got = ask(start())
    assert (got.status, got.body) == (200, DATA)
    assert got.headers["content-length"] == "100"
    assert got.headers["etag"] == ETAG
    assert got.headers["last-modified"] == LAST_MODIFIED == "Mon, 01 Jan 2024 00:00:00 GMT"
    assert got.headers["access-control-allow-origin"] == "*"
    exposed = set(got.headers["access-control-expose-headers"].split(", "))
    assert exposed >= {"Content-Range", "Content-Length", "ETag", "Last-Modified", "Location"}


def test_head(start: Start) -> None:
    got = ask(start(), method="HEAD")
    assert (got.status, got.body, got.headers["content-length"]) == (200, b"", "100")


def model(text: str, data: bytes) -> tuple[int, str | None, bytes]:
    """What RFC 9110 says about a single range."""
    first, _, last = text.removeprefix("bytes=").partition("-")
    size = len(data)
    if first and last and int(last) < int(first):
        return 200, None, data
    start = int(first) if first else max(0, size - int(last))
    stop = size if not (first and last) else min(size, int(last) + 1)
    if start >= stop:
        return 416, f"bytes */{size}", b""
    return 206, f"bytes {start}-{stop - 1}/{size}", data[start:stop]


@given(
    first=st.none() | st.integers(0, 120),
    last=st.none() | st.integers(0, 120),
    data=st.sampled_from([DATA, b"", b"x"]),
)
def test_ranges(first: int | None, last: int | None, data: bytes) -> None:
    if first is None and last is None:
        return
    text = f"bytes={'' if first is None else first}-{'' if last is None else last}"
    reply = answer(Request("GET", "/x", {"range": text}), data, {})
    expected = model(text, data)
    assert (reply.status, reply.headers.get("Content-Range"), reply.body) == expected


@pytest.mark.parametrize(
    ("header", "status"), [("bytes=10-19", 206), ("bytes=90-", 206), ("bytes=-5", 206)]
)
def test_ranges_over_a_socket(start: Start, header: str, status: int) -> None:
    got = ask(start(), Range=header)
    assert (got.status, got.headers["content-range"], got.body) == model(header, DATA)


@pytest.mark.parametrize("header", ["bytes=", "bytes=-", "bytes=0-1,3-4", "lines=0-1", "0-1"])
def test_other_ranges_do_not_count(start: Start, header: str) -> None:
    assert ask(start(), Range=header).status == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"If_Match": ETAG}, 200),
        ({"If_Match": f'"other", {ETAG}'}, 200),
        ({"If_Match": "*"}, 200),
        ({"If_Match": '"other"'}, 412),
        ({"If_Unmodified_Since": LAST_MODIFIED}, 200),
        ({"If_Unmodified_Since": "Sun, 31 Dec 2023 23:59:59 GMT"}, 412),
        ({"If_Unmodified_Since": "yesterday"}, 200),
        ({"If_Match": ETAG, "If_Unmodified_Since": "Sun, 31 Dec 2023 23:59:59 GMT"}, 200),
        ({"Range": "bytes=0-1", "If_Range": ETAG}, 206),
        ({"Range": "bytes=0-1", "If_Range": '"other"'}, 200),
    ],
)
def test_conditions(start: Start, headers: dict[str, str], status: int) -> None:
    assert ask(start(), **headers).status == status


def test_conditions_are_compared_with_the_headers_that_are_sent(start: Start) -> None:
    """Strongly: a weak tag is not the same as any, itself included."""
    weak = f"W/{ETAG}"
    origin = start({"path": "/a.bin", "headers": {"ETag": weak, "Last-Modified": None}})
    assert ask(origin).headers["etag"] == weak
    for tag in (ETAG, weak):
        assert ask(origin, If_Match=tag).status == 412
    assert ask(origin, If_Match="*").status == 200
    assert ask(origin, If_Unmodified_Since="Sun, 31 Dec 2023 23:59:59 GMT").status == 200
    assert ask(origin, Range="bytes=0-1", If_Range=weak).status == 200


def test_encoded_representations(start: Start) -> None:
    origin = start({"path": "/a.bin", "encode": "gzip"})
    whole, part = ask(origin), ask(origin, Range="bytes=2-5")
    assert (whole.status, whole.headers["content-encoding"]) == (200, "gzip")
    assert gzip.decompress(whole.body) == DATA
    assert (part.status, part.headers["content-encoding"]) == (206, "gzip")
    assert part.body == whole.body[2:6]
    assert part.headers["etag"] == whole.headers["etag"] != ETAG


@pytest.mark.parametrize(
    "target",
    """/ /none /bucket /../secret /%2e%2e/secret /bucket/..%2f..%2fsecret
    /link /a.bin/ //a.bin/. /bucket//a.bin /a.bin%00 /./a.bin""".split(),  # noqa: SIM905
)
def test_nothing_else_is_served(start: Start, target: str) -> None:
    assert ask(start(), target).status == 404


def test_paths_are_decoded(start: Start) -> None:
    assert ask(start(), "/%61%20b+c~%C3%BC&.bin?query=1").body == DATA


def test_other_methods(start: Start, stage: Stage) -> None:
    origin = start()
    assert ask(origin, method="PUT", Content_Length="0").status == 405
    got = ask(origin, method="OPTIONS", Access_Control_Request_Headers="range,authorization")
    assert (got.status, got.headers["access-control-allow-headers"]) == (
        204,
        "range,authorization",
    )
    assert [request.method for request in stage.stop()["http"]] == ["PUT"]


def test_connections_are_kept(start: Start) -> None:
    address = start({"path": "/gone", "status": 503}).removeprefix("http://")
    with closing(http.client.HTTPConnection(address)) as connection:
        connection.connect()
        first = connection.sock
        for method, path, status in (
            ("GET", "/a.bin", 200),
            ("HEAD", "/a.bin", 200),
            ("GET", "/none", 404),
            ("GET", "/gone", 503),
            ("OPTIONS", "/a.bin", 204),
            ("GET", "/empty.bin", 200),
        ):
            connection.request(method, path)
            response = connection.getresponse()
            response.read()
            assert response.status == status
            assert connection.sock is first


def test_requests_under_way_are_recorded(start: Start, stage: Stage) -> None:
    """What was sent before the end is in the record, though nobody waited for the answer."""
    host, port = start().removeprefix("http://").split(":")
    connections = [socket.create_connection((host, int(port))) for _ in range(20)]
    for connection in connections:
        connection.sendall(b"GET /late HTTP/1.1\r\nHost: x\r\n\r\n")
    assert [request.path for request in stage.stop()["http"]] == ["/late"] * 20
    for connection in connections:
        connection.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)))


def test_a_stage_that_was_never_started_stops() -> None:
    before = threading.active_count()
    assert Stage().stop() == {"http": [], "http2": [], "s3": []}
    assert threading.active_count() == before


# ------------------------------------------------------------------ rules


@pytest.mark.parametrize("server", ["http", "s3"])
def test_a_cache_answers_unless_it_is_passed(start: Start, directory: Path, server: str) -> None:
    name = {"http": "a.bin", "s3": "bucket/a.bin"}[server]
    place = directory / "sources" / name
    place.parent.mkdir(exist_ok=True)
    place.write_bytes(b"new")
    place.with_name("old.bin").write_bytes(b"before")
    cached = name.replace("a.bin", "old.bin")
    origin = start({"path": f"/{name}", "cached": cached}, server=server)
    for asked, body in (({}, b"before"), ({"Cache_Control": "no-cache"}, b"new")):
        assert ask(origin, f"/{name}", **asked).body == body
    place.unlink()
    assert ask(origin, f"/{name}").body == b"before"
    assert ask(origin, f"/{name}", Cache_Control="no-cache").status == 404
    assert ask(origin, f"/{name}", Cache_Control="max-age=0").body == b"before"


def test_status_and_location(start: Start) -> None:
    origin = start(
        {"path": "/a.bin", "status": 302, "location": "http://127.0.0.1/x"},
        {"path": "/s3", "status": 403},
    )
    got = ask(origin)
    assert (got.status, got.headers["location"], got.body) == (302, "http://127.0.0.1/x", b"")
    assert ask(origin, "/s3").status == 403


def test_the_first_rule_that_matches(start: Start) -> None:
    origin = start(
        {"path": "/a.bin", "method": "HEAD", "status": 500},
        {"path": "/a.bin", "times": 2, "status": 503},
        {"path": "/a.bin", "times": 1, "status": 429},
        {"path": "/a b+c~ü&.bin", "status": 418},
    )
    assert [ask(origin).status for _ in range(4)] == [503, 503, 429, 200]
    assert ask(origin, method="HEAD").status == 500
    assert ask(origin, "/a%20b%2Bc~%c3%bc&.bin?x").status == 418


def test_a_rule_for_one_query(start: Start) -> None:
    origin = start(
        {"path": "/a.bin", "query": "sig=a%20b&x"},
        {"path": "/a.bin", "query": "", "status": 401},
        {"path": "/a.bin", "status": 404},
    )
    targets = ["/a.bin?sig=a%20b&x", "/a.bin", "/a.bin?sig=a b&x".replace(" ", "+"), "/a.bin?x"]
    assert [ask(origin, target).status for target in targets] == [200, 401, 404, 404]


def test_truncate(start: Start) -> None:
    origin = start({"path": "/a.bin", "truncate": 7})
    with pytest.raises(http.client.IncompleteRead) as raised:
        ask(origin, Range="bytes=10-29")
    assert raised.value.partial == DATA[10:17]


def test_size(start: Start) -> None:
    origin = start({"path": "/a.bin", "size": 10})
    whole = ask(origin)
    assert whole.body == DATA[:10]
    assert whole.headers["etag"] != ETAG
    assert ask(origin, Range="bytes=5-20").headers["content-range"] == "bytes 5-9/10"
    assert ask(origin, Range="bytes=10-").headers["content-range"] == "bytes */10"


def test_ignore_range(start: Start) -> None:
    got = ask(start({"path": "/a.bin", "ignore_range": True}), Range="bytes=1-2")
    assert (got.status, got.body, "content-range" in got.headers) == (200, DATA, False)


@pytest.mark.parametrize(
    ("effects", "stated"),
    [
        ({"wrong_range": 5}, "15-24/100"),
        ({"part": [20, 30]}, "20-29/100"),
        ({"unknown_size": True}, "10-19/*"),
    ],
)
def test_other_ranges(start: Start, effects: dict[str, Any], stated: str) -> None:
    origin = start({"path": "/a.bin", **effects})
    got = ask(origin, Range="bytes=10-19")
    first, last = map(int, stated.partition("/")[0].split("-"))
    assert (got.status, got.body) == (206, DATA[first : last + 1])
    assert got.headers["content-range"] == f"bytes {stated}"
    assert ask(origin).status == (206 if "part" in effects else 200)


def test_headers(start: Start) -> None:
    changes = {"etag": None, "Content-Range": "bytes 0-1/2", "X-More": "yes"}
    changes["Access-Control-Allow-Origin"] = None
    got = ask(start({"path": "/a.bin", "headers": changes}), Range="bytes=10-11")
    assert not {"etag", "access-control-allow-origin"} & got.headers.keys()
    assert (got.headers["content-range"], got.headers["x-more"]) == ("bytes 0-1/2", "yes")


@pytest.mark.parametrize("length", ["7", None])
def test_a_replaced_length_ends_the_connection(start: Start, length: str | None) -> None:
    got = ask(start({"path": "/a.bin", "headers": {"content-length": length}}))
    assert got.headers["connection"] == "close"
    assert got.body == DATA[: None if length is None else int(length)]


def test_ignore_conditions(start: Start) -> None:
    origin = start({"path": "/a.bin", "ignore_conditions": True})
    assert ask(origin, If_Match='"other"').status == 200


def test_require_headers(start: Start) -> None:
    origin = start({"path": "/a.bin", "require_headers": {"Authorization": "Bearer x"}})
    assert ask(origin).status == 401
    assert ask(origin, authorization="Bearer y").status == 401
    assert ask(origin, authorization="Bearer x").body == DATA


def test_unknown_rules_are_refused() -> None:
    with pytest.raises(UsageError, match=r"unknown members \['state'\]"):
        Rules([{"path": "/", "state": 200}])


def test_obstore_reads(start: Start) -> None:
    store = HTTPStore.from_url(start(), client_options={"allow_http": True})
    assert bytes(obstore.get_range(store, "a.bin", start=3, end=9)) == DATA[3:9]


# ------------------------------------------------------------------ S3


def code(got: Answer) -> str | None:
    assert got.headers["content-type"] == "application/xml"
    root = ElementTree.fromstring(got.body)
    assert root.tag == "Error"
    return root.findtext("Code")


def test_objects(start: Start) -> None:
    origin = start(server="s3")
    assert ask(origin, "/bucket/a.bin", Range="bytes=-3").body == DATA[-3:]
    for target, method, status, expected in (
        ("/bucket/none", "GET", 404, "NoSuchKey"),
        ("/bucket/../a.bin", "GET", 404, "NoSuchKey"),
        ("/none/a.bin", "GET", 404, "NoSuchBucket"),
        ("/bucket/a.bin?versionId=1", "GET", 404, "NoSuchVersion"),
        ("/bucket?list-type=2", "GET", 403, "AccessDenied"),
        ("/bucket/a.bin", "DELETE", 405, "MethodNotAllowed"),
    ):
        got = ask(origin, target, method)
        assert (got.status, code(got)) == (status, expected)
    for headers, status, expected in (
        ({"If_Match": '"x"'}, 412, "PreconditionFailed"),
        ({"Range": "bytes=100-"}, 416, "InvalidRange"),
    ):
        got = ask(origin, "/bucket/a.bin", **headers)
        assert (got.status, code(got)) == (status, expected)
    assert ask(origin, "/bucket", "HEAD").headers["x-amz-bucket-region"]


def test_rules_of_s3(start: Start) -> None:
    origin = start({"path": "/bucket/a.bin", "times": 1, "status": 503}, server="s3")
    assert [ask(origin, "/bucket/a.bin").status for _ in range(2)] == [503, 200]


def test_versions(start: Start) -> None:
    versions = {"bucket/a.bin": {"v/1 ": "empty.bin", "v2": "bucket/a.bin"}}
    origin = start(server="s3", versions=versions)
    got = ask(origin, "/bucket/a.bin?versionId=v%2F1%20")
    assert (got.status, got.body, got.headers["x-amz-version-id"]) == (200, b"", "v/1 ")
    assert ask(origin, "/bucket/a.bin?versionId=v2").body == DATA
    assert ask(origin, "/bucket/a.bin").body == DATA
    assert ask(origin, "/bucket/a.bin?versionId=v3").status == 404


def s3_store(origin: str, **config: Any) -> S3Store:
    return S3Store(
        "bucket",
        config={"endpoint": origin, "region": REGION, **config},  # type: ignore[arg-type]
        client_options={"allow_http": True},
        retry_config={"max_retries": 0},
    )


CREDENTIALS = {"access_key_id": PAIR.access_key_id, "secret_access_key": PAIR.secret_access_key}


@pytest.mark.parametrize("unsigned_payload", [False, True])
def test_obstore_signs(start: Start, unsigned_payload: bool) -> None:
    origin = start(server="s3", credentials=CREDENTIALS)
    store = s3_store(origin, unsigned_payload=unsigned_payload, **CREDENTIALS)
    for key in ("a.bin", "a b+c~ü&.bin"):
        assert bytes(obstore.get_range(store, key, start=3, end=9)) == DATA[3:9]
        assert obstore.head(store, key)["e_tag"] == ETAG
    wrong = s3_store(origin, **CREDENTIALS | {"secret_access_key": "another"})
    other = s3_store(origin, **CREDENTIALS | {"access_key_id": "another"})
    anonymous = s3_store(origin, skip_signature=True)
    for store in (wrong, other, anonymous):
        with pytest.raises(PermissionDeniedError):
            obstore.get(store, "a.bin")


@pytest.mark.parametrize("payload_signing", [False, True])
def test_botocore_signs(start: Start, payload_signing: bool) -> None:
    versions = {"bucket/a b+c~ü&.bin": {"v/1 +": "bucket/a.bin"}}
    origin = start(server="s3", credentials=CREDENTIALS, versions=versions)

    def client(secret: str) -> Any:
        return botocore.session.get_session().create_client(
            "s3",
            endpoint_url=origin,
            region_name=REGION,
            aws_access_key_id=PAIR.access_key_id,
            aws_secret_access_key=secret,
            config=Config(
                s3={"addressing_style": "path", "payload_signing_enabled": payload_signing},
                retries={"max_attempts": 0},
            ),
        )

    wanted = {"Bucket": "bucket", "Key": "a b+c~ü&.bin", "VersionId": "v/1 +"}
    good, bad = client(PAIR.secret_access_key), client("another")
    assert good.get_object(**wanted, Range="bytes=0-9")["Body"].read() == DATA[:10]
    with pytest.raises(ClientError, match="SignatureDoesNotMatch"):
        bad.get_object(**wanted)
    good.close()
    bad.close()


def signed(url: str = "http://127.0.0.1:1/bucket/a.bin?versionId=1") -> Request:
    signing = AWSRequest("GET", url, headers={"Host": "127.0.0.1:1", "X-Amz-Meta": "a  b"})
    pair = BotocoreCredentials(PAIR.access_key_id, PAIR.secret_access_key)
    S3SigV4Auth(pair, "s3", REGION).add_auth(signing)
    headers = {name.lower(): value for name, value in signing.headers.items()}
    return Request("GET", url.removeprefix("http://127.0.0.1:1"), headers)


def refusal(request: Request, later: timedelta = timedelta(0), **changes: Any) -> str | None:
    changed = {**request.headers, **changes}
    headers = {name: value for name, value in changed.items() if value is not None}
    changed_request = Request(request.method, request.target, headers)
    return signatures.refusal(changed_request, PAIR, datetime.now(UTC) + later)


def test_every_part_is_signed() -> None:
    request = signed()
    assert refusal(request) is None
    assert refusal(Request("HEAD", request.target, request.headers)) == "SignatureDoesNotMatch"
    assert refusal(Request("GET", "/bucket/b.bin", request.headers)) == "SignatureDoesNotMatch"
    for name, value, expected in (
        ("host", "other", "SignatureDoesNotMatch"),
        ("host", None, "SignatureDoesNotMatch"),
        ("x-amz-meta", "c", "SignatureDoesNotMatch"),
        ("x-amz-content-sha256", "0" * 64, "SignatureDoesNotMatch"),
        ("x-amz-content-sha256", "UNSIGNED-PAYLOAD", "SignatureDoesNotMatch"),
        ("x-amz-security-token", "not signed", "SignatureDoesNotMatch"),
        ("x-amz-date", "20240101T000000Z", "RequestTimeTooSkewed"),
        ("x-amz-date", "20249999T000000Z", "RequestTimeTooSkewed"),
        ("x-amz-date", None, "RequestTimeTooSkewed"),
        ("authorization", None, "AccessDenied"),
        ("authorization", "AWS AKID:x", "AccessDenied"),
        ("authorization", f"{request.headers['authorization'][:-1]}g", "AccessDenied"),
    ):
        changed: Any = {name: value}
        assert refusal(request, **changed) == expected, name
    assert refusal(request, timedelta(minutes=16)) == "RequestTimeTooSkewed"
    scope = request.headers["authorization"].replace("/s3/", "/ec2/")
    assert refusal(request, authorization=scope) == "SignatureDoesNotMatch"
