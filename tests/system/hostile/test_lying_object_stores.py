"""An object store that says an object is small, and then sends without end."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from activities.datasets import DatasetError, ObjectSource, check_items

MB = 1024 * 1024
LINES = b'{"input": "again and again"}\n' * 36_000
"""About a megabyte."""


class _Lying(BaseHTTPRequestHandler):
    """Says a hundred bytes, and sends `mode`."""

    protocol_version = "HTTP/1.1"
    mode = "chunked"
    sent = 0

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "100")
        self.send_header("ETag", '"a"')
        self.end_headers()

    def do_GET(self) -> None:
        cls = type(self)
        self.send_response(200)
        self.send_header("ETag", '"a"')
        if cls.mode == "chunked":
            self.send_header("Transfer-Encoding", "chunked")
        elif cls.mode == "length":
            self.send_header("Content-Length", str(64 * len(LINES)))
        else:
            self.send_header("Connection", "close")
        self.end_headers()
        try:
            for _ in range(64):
                framed = b"%x\r\n%s\r\n" % (len(LINES), LINES) if cls.mode == "chunked" else LINES
                self.wfile.write(framed)
                cls.sent += len(LINES)
            if cls.mode == "chunked":
                self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[_Lying]]:
    handler = type("Handler", (_Lying,), {})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as serving:
        serving.daemon_threads = True
        thread = threading.Thread(target=serving.serve_forever, daemon=True)
        thread.start()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{serving.server_address[1]}")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, "test-key")
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        yield handler
        serving.shutdown()


@pytest.mark.parametrize("mode", ["chunked", "length", "close"])
def test_what_arrives_is_bounded_whatever_length_was_told(
    server: type[_Lying], mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.mode = mode
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(DatasetError, match=r"bucket/data\.jsonl has more than 4 MB; make it smaller, or raise RATCHET_LARGEST"):
        check_items(ObjectSource("s3://bucket/data.jsonl", largest_mb=4))
    assert server.sent < 32 * MB  # and not all 64
    assert not list(tmp_path.iterdir())
