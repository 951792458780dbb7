"""The least of an Opik server that lets `opik-optimizer` run offline: it takes everything, answers at once, keeps little.

python -m benchmarks.peers_drivers.opik_backend     prints its port, serves until it is ended
"""

from __future__ import annotations

import json
import re
import sys
import uuid
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import urlsplit


class Backend(BaseHTTPRequestHandler):
    """Datasets with their items, and optimizations by id; the rest is acknowledged."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    datasets: ClassVar[dict[str, dict[str, Any]]] = {}
    items: ClassVar[dict[str, dict[str, Any]]] = {}
    optimizations: ClassVar[dict[str, dict[str, Any]]] = {}

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        if found := re.fullmatch(r".*/private/optimizations/([\w-]+)", path):
            self._answer(200, self.optimizations.get(found[1], {"id": found[1]}))
        elif found := re.fullmatch(r".*/private/datasets/([\w-]+)/items", path):
            items = list(self.items.get(self._dataset(found[1])["name"], {}).values())
            self._answer(200, {"content": items, "page": 1, "size": len(items), "total": len(items)})
        elif found := re.fullmatch(r".*/private/datasets/([\w-]+)", path):
            self._answer(200, self._dataset(found[1]))
        elif path.endswith("/versions"):
            self._answer(200, {"content": [], "page": 1, "size": 0, "total": 0})
        else:
            self._answer(200, {})

    def do_POST(self) -> None:
        body, path = self._body(), urlsplit(self.path).path
        if path.endswith("/datasets/retrieve"):
            known = self.datasets.get(body["dataset_name"])
            self._answer(200, known) if known else self._answer(404, {"errors": ["Dataset not found"]})
        elif path.endswith("/private/datasets"):
            self.datasets[body["name"]] = body | {"id": body.get("id") or str(uuid.uuid4())}
            self._answer(201, {})
        elif path.endswith("/datasets/items/stream"):
            of = self.items.get(body["dataset_name"], {})
            after = body.get("last_retrieved_id")
            self._lines([] if after is not None else list(of.values()))
        elif path.endswith("/private/optimizations"):
            self.optimizations[body["id"]] = body
            self._answer(201, {})
        elif path.endswith("/projects/retrieve"):
            self._answer(200, {"id": str(uuid.uuid5(uuid.NAMESPACE_URL, body["name"])), "name": body["name"]})
        else:
            self._answer(204, None)

    def do_PUT(self) -> None:
        body, path = self._body(), urlsplit(self.path).path
        if path.endswith("/datasets/items"):
            of = self.items.setdefault(body["dataset_name"], {})
            of |= {item["id"]: item for item in body["items"]}
        elif path.endswith("/private/optimizations"):
            self.optimizations[body["id"]] = body
        self._answer(204, None)

    def do_PATCH(self) -> None:
        self._body()
        self._answer(204, None)

    do_DELETE = do_PATCH

    def _dataset(self, dataset_id: str) -> dict[str, Any]:
        return next(dataset for dataset in self.datasets.values() if dataset["id"] == dataset_id)

    def _body(self) -> Any:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        match self.headers.get("Content-Encoding"):
            case "gzip":
                raw = zlib.decompress(raw, wbits=31)
            case "deflate":
                raw = zlib.decompress(raw)
        return json.loads(raw) if raw else {}

    def _lines(self, items: list[dict[str, Any]]) -> None:
        self._send(200, "".join(json.dumps(item) + "\n" for item in items).encode(), "application/octet-stream")

    def _answer(self, status: int, body: Any) -> None:
        self._send(status, b"" if body is None else json.dumps(body).encode(), "application/json")

    def _send(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """One line a request is what stderr is for here: it tells which requests a trial takes."""
        sys.stderr.write(f"{format % arguments}\n")


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Backend)
    print(server.server_port, flush=True)
    server.serve_forever()
