"""A bucket and a model hub that want credentials. Runs in the environment and with the support of
services/triton_vllm/tests.

Reads the credentials from standard input, as JSON in one line, and prints where the servers listen.
For each further line it prints how they were asked for files so far, the Authorization headers:
{"bucket": ["AWS4-HMAC-SHA256 …"], "hub": ["Bearer …", null]}. Ends with its input.
"""

from __future__ import annotations

import json
import sys
from urllib.parse import urlsplit

import served_models


def main() -> None:
    given = json.loads(sys.stdin.readline())
    served_models.KEYS.update(given["models"])
    served_models.TOKEN.update(given["hub"])
    content = served_models.model_content(shard_bytes=30_000)
    with (
        served_models.serving_store(content) as store,
        served_models.serving_hub(content) as hub,
    ):
        hub.private = True
        places = {
            "bucket": (served_models.ADDRESS, port_of(store.endpoint)),
            "hub": (served_models.ADDRESS, port_of(hub.endpoint)),
            "large files": (served_models.OTHER_ADDRESS, port_of(hub.elsewhere)),
        }
        hub.elsewhere = f"http://127.0.0.1:{port_of(hub.elsewhere)}"  # as the hosts reach it
        say(places)
        for _ in sys.stdin:
            say({"bucket": authorizations(store), "hub": authorizations(hub)})


def authorizations(served: served_models.Served) -> list[str | None]:
    return [answer.authorization for answer in served.answers]


def port_of(endpoint: str) -> int:
    port = urlsplit(endpoint).port
    assert port is not None
    return port


def say(document: object) -> None:
    print(json.dumps(document), flush=True)


if __name__ == "__main__":
    main()
