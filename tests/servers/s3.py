"""moto's S3 on a loopback port, with a record of who signed what.

A bucket is private unless it was created public: an unsigned request is answered with
403, as by S3, and so is one that would write to a public bucket. Any signature is let in.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qs

__all__ = ["Recorded", "S3Server"]

ACCESS_KEY_ID = "testing"
SECRET_ACCESS_KEY = "testing-secret"
REGION = "us-east-1"


class Recorded(NamedTuple):
    """A request, its path decoded; `signed` if it had credentials, in a header or the query."""

    method: str
    path: str
    query: str
    signed: bool
    range: str | None


class S3Server:
    """An S3 server, as a context manager.

    Parameters
    ----------
    latency : float
        How long every answer is delayed, in seconds; may be changed.

    Examples
    --------
    >>> with S3Server() as s3:
    ...     s3.create_bucket("data")
    ...     version = s3.put("data", "a.nc", b"0123")
    """

    def __init__(self, latency: float = 0.0) -> None:
        self.latency = latency
        self._lock = threading.Lock()
        self._one_at_a_time = threading.Lock()
        self._requests: list[Recorded] = []
        self._delays: list[tuple[float, float]] = []
        self._public: set[str] = set()
        # Many tests name this class, and few start a server.
        import boto3  # type: ignore[import-untyped]
        from botocore.config import Config  # type: ignore[import-untyped]
        from moto.moto_server.werkzeug_app import MotoRequestHandler, create_backend_app
        from werkzeug.serving import make_server

        class QuietHandler(MotoRequestHandler):
            def log(self, type: str, message: str, *args: Any) -> None:
                """Say nothing: the requests are recorded."""

        # Not moto's dispatcher, which lists the modules of all services for each request.
        app = self._recording(create_backend_app("s3"))
        self._server = make_server("127.0.0.1", 0, app, True, request_handler=QuietHandler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        # Explicit credentials: the tests strip the environment of AWS_*.
        self._client: Any = boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name=REGION,
            aws_access_key_id=ACCESS_KEY_ID,
            aws_secret_access_key=SECRET_ACCESS_KEY,
            config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 1}),
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def endpoint(self) -> str:
        """The origin, without a trailing slash."""
        return f"http://127.0.0.1:{self._server.port}"

    @property
    def options(self) -> dict[str, Any]:
        """Keyword arguments for `obstore.store.S3Store.from_url("s3://bucket", **options)`."""
        return {
            **self.location_options,
            "access_key_id": ACCESS_KEY_ID,
            "secret_access_key": SECRET_ACCESS_KEY,
        }

    @property
    def anonymous_options(self) -> dict[str, Any]:
        """As `options`, but unsigned."""
        return {**self.location_options, "skip_signature": True}

    @property
    def location_options(self) -> dict[str, Any]:
        """As `options`, without a word about credentials."""
        return {
            "endpoint": self.endpoint,
            "region": REGION,
            "virtual_hosted_style_request": False,
            "client_options": {"allow_http": True},
        }

    @property
    def environment(self) -> dict[str, str]:
        """Variables with which what asks the environment finds this server, with credentials."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": ACCESS_KEY_ID,
            "AWS_SECRET_ACCESS_KEY": SECRET_ACCESS_KEY,
            "AWS_REGION": REGION,
        }

    @property
    def requests(self) -> list[Recorded]:
        """A copy of the requests so far, including those of `put` and its like."""
        with self._lock:
            return list(self._requests)

    @property
    def rounds(self) -> int:
        """The largest number of requests so far none of which waited beside another."""
        found, end = 0, 0.0
        with self._lock:
            delays = sorted(self._delays, key=lambda delay: delay[1])
        for begun, ended in delays:
            if begun >= end:
                found, end = found + 1, ended
        return found

    def clear(self) -> None:
        """Forget the recorded requests."""
        with self._lock:
            self._requests.clear()
            self._delays.clear()

    def create_bucket(self, name: str, public: bool = False) -> None:
        """Create a bucket, readable without credentials if `public`."""
        self._client.create_bucket(Bucket=name)
        if public:
            self._public.add(name)

    def put(self, bucket: str, key: str, data: bytes) -> str | None:
        """Store an object and return its version id, if the bucket has versions."""
        acl = "public-read" if bucket in self._public else "private"
        stored = self._client.put_object(Bucket=bucket, Key=key, Body=data, ACL=acl)
        version = stored.get("VersionId")
        return None if version is None else str(version)

    def head(self, bucket: str, key: str) -> dict[str, Any]:
        """Return what the server says of an object."""
        found: dict[str, Any] = self._client.head_object(Bucket=bucket, Key=key)
        return found

    def restate(
        self, bucket: str, key: str, *, version: str, etag: str, last_modified: datetime
    ) -> None:
        """Let an object that was just put have another version, entity tag and time."""
        from moto.core.models import DEFAULT_ACCOUNT_ID
        from moto.s3.models import s3_backends

        stored: Any = s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets[bucket].keys[key]
        stored._version_id, stored._etag = version, etag
        stored.last_modified = last_modified.astimezone(UTC).replace(tzinfo=None)

    def delete(self, bucket: str, key: str, version: str | None = None) -> None:
        """Delete an object, or one version of it."""
        extra = {} if version is None else {"VersionId": version}
        self._client.delete_object(Bucket=bucket, Key=key, **extra)

    def enable_versioning(self, bucket: str) -> None:
        """Keep the versions of objects that are put from now on."""
        self._client.put_bucket_versioning(
            Bucket=bucket, VersioningConfiguration={"Status": "Enabled"}
        )

    def _recording(self, app: Callable[..., Iterable[bytes]]) -> Callable[..., Iterable[bytes]]:
        def recording(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
            with self._lock:
                self._requests.append(recorded := _record(environ))
            begun = time.monotonic()
            if self.latency:
                time.sleep(self.latency)
            with self._lock:
                self._delays.append((begun, time.monotonic()))
            bucket = recorded.path.split("/")[1]
            # moto itself looks at the ACL of objects that are read, and at nothing else.
            reads_public = bucket in self._public and recorded.method in ("GET", "HEAD")
            if not recorded.signed and not reads_public:
                start_response("403 Forbidden", [("Content-Length", "0")])
                return []
            if environ["REQUEST_METHOD"] != "PUT":
                return app(environ, start_response)
            # S3 meets a condition and stores the object at once; moto does one after the other.
            with self._one_at_a_time:
                return app(environ, start_response)

        return recording


def _record(environ: dict[str, Any]) -> Recorded:
    query = environ.get("QUERY_STRING", "")
    signed = "HTTP_AUTHORIZATION" in environ or "X-Amz-Signature" in parse_qs(query)
    return Recorded(
        environ["REQUEST_METHOD"],
        # WSGI hands the path over percent-decoded, its UTF-8 disguised as Latin-1.
        environ["PATH_INFO"].encode("latin-1").decode(),
        query,
        signed,
        environ.get("HTTP_RANGE"),
    )
