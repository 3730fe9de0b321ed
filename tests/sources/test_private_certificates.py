"""HTTPS servers whose certificates only the reader's options trust: what is asked honours them."""

from __future__ import annotations

import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import obstore
import pytest
import zarr
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

import zarr_manifest as zm
from tests.quick_retries import NO_RETRIES
from tests.servers.http_files import FileServer, redirect
from tests.untrusted_manifests import RAW, VALUES, declare, read, refused

KEY = ec.generate_private_key(ec.SECP256R1())


def certificate(name: str, issuer: str) -> x509.Certificate:
    """A certificate of the address 127.0.0.1, or of an authority if the names are equal."""
    now = datetime.now(UTC)
    addresses = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, issuer)]))
        .public_key(KEY.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=name == issuer, path_length=None), critical=True)
        .add_extension(addresses, critical=False)
        .sign(KEY, hashes.SHA256())
    )


def pem(made: x509.Certificate) -> str:
    return made.public_bytes(serialization.Encoding.PEM).decode()


def require(client: dict[str, Any]) -> None:
    """Skip a test whose options older releases of obstore lack."""
    try:
        obstore.store.HTTPStore("https://127.0.0.1:1", client_options=client)
    except ValueError as error:
        pytest.skip(f"obstore {obstore.__version__} does not have it: {error}")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FileServer]:
    """A server whose certificate an authority signed that nobody knows."""
    private = KEY.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    (tmp_path / "server.pem").write_bytes(private + pem(certificate("server", "us")).encode())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem")
    files = FileServer()
    files._server.socket = context.wrap_socket(files._server.socket, server_side=True)
    with files:
        yield files


@pytest.mark.servers
@pytest.mark.slow
@pytest.mark.parametrize("option", [None, "root_certificate", "allow_invalid_certificates"])
def test_options_of_the_client_count(
    tmp_path: Path, server: FileServer, option: str | None
) -> None:
    root = tmp_path / "data.zarr"
    zarr.create_group(root)
    url = server.url.replace("http:", "https:")
    server.put("f.bin", RAW)
    declare(root, f"{url}/f.bin")
    stated: dict[str, Any] = {
        "root_certificate": pem(certificate("us", "us")),
        "allow_invalid_certificates": True,
    }
    client = {} if option is None else {option: stated[option]}
    require(client)
    allow = {url: {"client_options": client, "retry_config": NO_RETRIES}}
    if option is None:
        allow[url]["retry_config"] = {"max_retries": 1000}  # as if it would help to try again
        error = refused(root, zm.errors.SourceError, allow=allow)
        assert "SSLCertVerificationError" in error.problem
        assert "root_certificate" in str(error.remedy)
        return
    assert read(root, allow=allow) == VALUES
    server.script("f.bin", redirect("https://no.such.host.invalid/f.bin"), sticky=True)
    refused(root, allow=allow)


class _Tunnel(BaseHTTPRequestHandler):
    """Passes bytes on, both ways, to the server that CONNECT names."""

    asked: list[str]

    def do_CONNECT(self) -> None:
        self.asked.append(self.path)
        host, _, port = self.path.rpartition(":")
        with socket.create_connection((host, int(port)), 5) as server:
            self.send_response(200)
            self.end_headers()
            there = threading.Thread(target=self._pass_on, args=(self.connection, server))
            there.start()
            self._pass_on(server, self.connection)
            there.join()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while found := source.recv(65536):
                target.sendall(found)
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.mark.servers
@pytest.mark.slow
def test_a_tunnel_through_a_proxy(tmp_path: Path, server: FileServer) -> None:
    trusted = {"root_certificate": pem(certificate("us", "us"))}
    require(trusted)
    root = tmp_path / "data.zarr"
    zarr.create_group(root)
    url = server.url.replace("http:", "https:")
    server.put("f.bin", RAW)
    declare(root, f"{url}/f.bin?sig=a%2fb")
    asked: list[str] = []
    with ThreadingHTTPServer(
        ("127.0.0.3", 0), type("Handler", (_Tunnel,), {"asked": asked})
    ) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, args=(0.01,))
        thread.start()
        client = {**trusted, "proxy_url": f"http://127.0.0.3:{proxy.server_port}"}
        allow = {url: {"client_options": client, "retry_config": NO_RETRIES}}
        try:
            assert read(root, allow=allow) == VALUES
        finally:
            server._server.hang_up()
            proxy.shutdown()
            thread.join()
    assert asked == [url.removeprefix("https://")]
    assert [request.target for request in server.requests] == ["/f.bin?sig=a%2fb"]


@pytest.mark.slow
def test_certificates_are_loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[ssl.SSLContext] = []
    create = ssl.create_default_context

    def slow() -> ssl.SSLContext:
        made.append(create())
        time.sleep(0.05)
        return made[-1]

    monkeypatch.setattr(ssl, "create_default_context", slow)
    # Which no other test uses, so that none has been here before.
    client = {"root_certificate": pem(certificate("nobody", "nobody"))}
    require(client)
    options: Any = {"retry_config": NO_RETRIES, "client_options": client}
    store = zm.ManifestStore("https://127.0.0.1:1/h", allow={"https://127.0.0.1:1/": options})
    with pytest.raises(zm.ManifestError):
        zarr.open_group(store, mode="r")
    assert len(made) == 1
