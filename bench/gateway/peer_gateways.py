"""The gateways of others, from the package index, with their defaults but for the policy.

Their logs are kept short, as ours is: at their default level some write a line for every request.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.gateway.contender import LeftOutError, Place, Running
from bench.gateway.processes import running
from bench.gateway.replicas import MODEL
from toolchain.errors import ToolchainError
from toolchain.prepare import EnvironmentJob, prepare

REQUIREMENTS = Path(__file__).parent / "requirements.txt"
PORT, PROMETHEUS_PORT = 30_000, 29_000

# The flags of these three come from one program. What differs: how it is called (two of them bring
# a script with the same name), and the name of a level of logs.
_COMMANDS = {
    "vllm-router": ("vllm_router.launch_router", "--log-level", "warning"),
    "sglang-router": ("sglang_router", "launch", "--log-level", "warn"),
    "smg": ("smg", "launch", "--log-level", "warn"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Router:
    package: str
    policy: str


class Peers:
    """Their environment. It is made when the first of them is started, since that downloads
    200 MB."""

    def __init__(self, cache: Path) -> None:
        self._cache = cache

    def folder(self) -> Path:
        """Raises LeftOutError if it cannot be made."""
        try:
            job = EnvironmentJob(name="gateway-peers", requirements=REQUIREMENTS)
            return prepare([job], self._cache)["gateway-peers"]
        except ToolchainError as error:
            raise LeftOutError(f"not installed: {error}") from error

    @contextmanager
    def router(self, router: Router, place: Place) -> Iterator[Running]:
        flags = {
            "host": place.host,
            "port": str(PORT),
            "policy": router.policy,
            "prometheus-host": place.host,
            "prometheus-port": str(PROMETHEUS_PORT),
        }
        program: list[str | Path] = [self.folder() / "bin/python", "-m", *_COMMANDS[router.package]]
        arguments = [text for name, value in flags.items() for text in (f"--{name}", value)]
        urls = [f"http://{host}:{port}" for host, port in place.replicas]
        with _running([*program, *arguments, "--worker-urls", *urls], place, {}) as found:
            yield found

    @contextmanager
    def litellm(self, place: Place) -> Iterator[Running]:
        """The proxy with one worker and its default, a random choice of the replicas."""
        config = place.folder / "litellm.json"  # JSON is YAML
        config.write_text(json.dumps(_litellm_config(place)))
        command: list[str | Path] = [self.folder() / "bin/litellm", "--config", config]
        command += ["--host", place.host, "--port", str(PORT)]
        variables = {
            "LITELLM_LOG": "ERROR",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else it downloads a table of prices
            # It has no keys, as the other gateways here.
            "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
        }
        with _running(command, place, variables) as found:
            yield found


@contextmanager
def _running(
    command: Sequence[str | Path], place: Place, variables: Mapping[str, str]
) -> Iterator[Running]:
    log = place.folder / "log"
    with running(command, log=log, folder=place.folder, environment=variables) as process:
        yield Running(address=(place.host, PORT), processes=(process,), log=log)


def _litellm_config(place: Place) -> dict[str, object]:
    return {
        "model_list": [
            {
                "model_name": MODEL,
                "litellm_params": {
                    "model": f"openai/{MODEL}",
                    "api_base": f"http://{host}:{port}/v1",
                    "api_key": "none",
                },
            }
            for host, port in place.replicas
        ],
        "litellm_settings": {"telemetry": False},
    }
