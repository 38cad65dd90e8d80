"""An instance's metadata service (IMDSv2), inside the network of one host of the bed.

    python metadata_service.py ADDRESS FILE

FILE is JSON, read for each request: path below latest/ -> text. Only sessions are answered.
"""

from __future__ import annotations

import http.server
import json
import sys
from pathlib import Path
from typing import Any

SESSION = "a session of the bed"


class Handler(http.server.BaseHTTPRequestHandler):
    file: Path

    def do_PUT(self) -> None:
        self._answer(200 if self.path == "/latest/api/token" else 404, SESSION)

    def do_GET(self) -> None:
        if self.headers.get("X-aws-ec2-metadata-token") != SESSION:
            self._answer(401, "")
            return
        text = json.loads(self.file.read_text()).get(self.path.removeprefix("/latest/"))
        self._answer(404 if text is None else 200, text or "")

    def _answer(self, status: int, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


def main() -> None:
    address, Handler.file = sys.argv[1], Path(sys.argv[2])
    http.server.ThreadingHTTPServer((address, 80), Handler).serve_forever()


if __name__ == "__main__":
    main()
