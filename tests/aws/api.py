"""AWS's API for the hosts of the bed: moto, and before it what moto lacks.

    python api.py ADDRESS PORT

Requests of a role are judged by action and resource (permissions.py), the operator's are not.
Lifecycle actions of Auto Scaling groups are answered here (lifecycle.py). Tests have two requests
of their own: POST /bed/lifecycle lets an instance wait at a hook, GET says what instances said.
Prints its address once it listens. Run by the environment of services/aws's tests.
"""

from __future__ import annotations

import io
import json
import sys
import uuid
from collections.abc import Callable, Iterable
from typing import Any
from xml.sax.saxutils import escape

from lifecycle import CALLS, Lifecycle
from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from permissions import RefusedError, Signed, must_be_allowed, role_of, signed
from werkzeug.serving import make_server
from werkzeug.wrappers import Request, Response

CONTROL = "/bed/lifecycle"
NAMESPACES = {
    "autoscaling": "http://autoscaling.amazonaws.com/doc/2011-01-01/",
    "sts": "https://sts.amazonaws.com/doc/2011-06-15/",
}
# Their requests are small. Those of S3 are streams, which moto reads.
READ_FIRST = ("autoscaling", "secretsmanager", "sts")
Application = Callable[[dict[str, Any], Any], Iterable[bytes]]


class Front:
    def __init__(self, aws: Application) -> None:
        self._aws, self._lifecycle = aws, Lifecycle()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        request = Request(environ, populate_request=False)
        if request.path == CONTROL:
            return self._control(request)(environ, start_response)
        by = signed(request)
        answer = self._answer(request, by) if by else None
        return (answer or self._aws)(environ, start_response)

    def _control(self, request: Request) -> Response:
        if request.method == "POST":
            self._lifecycle.wait(**request.get_json())
        return _json(self._lifecycle.said(), 200)

    def _answer(self, request: Request, by: Signed) -> Response | None:
        """None for what moto answers."""
        role = role_of(by)
        if role or by.service in READ_FIRST:
            body = request.get_data()  # form and JSON are read from it
            _give_back(request, body)
        try:
            if role:
                must_be_allowed(request, by, role)
            if by.service == "autoscaling" and request.form.get("Action") in CALLS:
                self._lifecycle.answer(by.region, request.form)
                return _done(request.form["Action"])
        except RefusedError as error:
            return refusal(by.service, error)
        return None


def _give_back(request: Request, body: bytes) -> None:
    """The body has been read, and moto reads it once more."""
    request.environ["wsgi.input"] = io.BytesIO(body)
    request.environ["CONTENT_LENGTH"] = str(len(body))


def refusal(service: str, error: RefusedError) -> Response:
    """In the shape of the service's protocol."""
    status = 400 if error.code == "ValidationError" else 403
    if service == "secretsmanager":
        document = {"__type": f"{error.code}Exception", "Message": error.message}
        return _json(document, 400, "application/x-amz-json-1.1")
    said = f"<Code>{error.code}</Code><Message>{escape(error.message)}</Message>"
    number = f"<RequestId>{uuid.uuid4()}</RequestId>"
    if service == "s3":
        text = f"<Error>{said}{number}</Error>"
    else:
        place = f' xmlns="{NAMESPACES[service]}"' if service in NAMESPACES else ""
        text = f"<Error><Type>Sender</Type>{said}</Error>{number}"
        text = f"<ErrorResponse{place}>{text}</ErrorResponse>"
    return _xml(text, status)


def _done(action: str) -> Response:
    place, number = NAMESPACES["autoscaling"], uuid.uuid4()
    return _xml(
        f'<{action}Response xmlns="{place}"><{action}Result/><ResponseMetadata>'
        f"<RequestId>{number}</RequestId></ResponseMetadata></{action}Response>",
        200,
    )


def _json(document: object, status: int, kind: str = "application/json") -> Response:
    return Response(json.dumps(document), status, content_type=kind)


def _xml(text: str, status: int) -> Response:
    return Response(f'<?xml version="1.0" encoding="UTF-8"?>\n{text}', status, mimetype="text/xml")


def main() -> None:
    address, port = sys.argv[1], int(sys.argv[2])
    front = Front(DomainDispatcherApplication(create_backend_app))
    server = make_server(address, port, front, threaded=True, request_handler=MotoRequestHandler)
    print(f"http://{address}:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
