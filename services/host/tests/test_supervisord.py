"""supervisord's configuration: what agents inherit, and paths of any form."""

from __future__ import annotations

import configparser
import shlex
from pathlib import Path

import pytest
from host.document import Agent, Endpoint
from host.supervisord import clean_environment, program_section, supervisor_configuration
from program.folders import Folders
from supervisor.datatypes import RestartUnconditionally  # type: ignore[import-untyped]
from supervisor.events import Tick5Event  # type: ignore[import-untyped]
from supervisor.options import (  # type: ignore[import-untyped]
    EventListenerPoolConfig,
    ServerOptions,
)

AGENT = Agent(
    host="cpu-0",
    name="consul",
    stage=2,
    command=("/a cache/consul", "agent", "-config-file=/a run/config.json"),
    ready_url="http://127.0.0.1:1/",
    ready_timeout_s=1,
    stop_timeout_s=30,
)


@pytest.fixture(params=["a run", "jörg", "o'neil, \\ & co"])
def folders(tmp_path: Path, request: pytest.FixtureRequest) -> Folders:
    home = tmp_path / request.param
    folders = Folders(run=home / "run", cache=home, scratch=home / "s")
    folders.prepare()
    return folders


def parsed(folders: Folders) -> ServerOptions:
    """The configuration as supervisord itself understands it."""
    main = folders.supervisor / "supervisord.conf"
    endpoint = Endpoint(address="127.0.0.1", port=9001)
    main.write_text(supervisor_configuration(folders, endpoint, "password"))
    (folders.supervisor / "conf.d").mkdir()
    section = program_section(AGENT, folders)
    (folders.supervisor / "conf.d/cpu-0-consul.conf").write_text(section)
    options = ServerOptions()
    options.realize(["-c", str(main)])
    return options


def test_supervisord_reads_paths_of_any_form(folders: Folders) -> None:
    options = parsed(folders)
    assert options.logfile == str(folders.logs / "supervisord.log")
    program = next(
        program
        for group in options.process_group_configs
        for program in group.process_configs
        if program.name == "cpu-0-consul"
    )
    assert program.command == ("'/a cache/consul' agent '-config-file=/a run/config.json'")
    assert program.stdout_logfile == str(folders.logs / "cpu-0-consul.log")
    assert program.environment == {
        "SLIPWAY_AGENT": str(folders.agent("cpu-0", "consul")),
        "TMPDIR": str(folders.scratch),
    }


def test_supervisord_keeps_the_watcher_of_log_collectors_and_tells_it_the_time(
    folders: Folders,
) -> None:
    groups = parsed(folders).process_group_configs
    [listener] = [group for group in groups if isinstance(group, EventListenerPoolConfig)]
    [program] = listener.process_configs
    assert listener.pool_events == [Tick5Event]
    assert Path(shlex.split(program.command)[-1]).is_file()
    assert (program.autostart, program.autorestart) == (True, RestartUnconditionally)
    assert Folders.from_environment(program.environment) == folders
    assert program.stderr_logfile == str(folders.logs / "log-collectors.log")


def test_a_dead_agent_is_started_again_but_none_starts_by_itself(folders: Folders) -> None:
    options = configparser.RawConfigParser()
    options.read_string(program_section(AGENT, folders))
    section = options["program:cpu-0-consul"]
    assert section["autorestart"] == "true"
    assert section["autostart"] == "false"


def test_agents_inherit_how_to_reach_a_package_index_and_no_secret() -> None:
    operator = {
        "HOME": "/home/x",
        "PATH": "/home/x/bin",
        "PIP_INDEX_URL": "http://127.0.0.1/simple",
        "HTTPS_PROXY": "http://127.0.0.1:3128",
        "https_proxy": "http://127.0.0.1:3128",
        "PULUMI_CONFIG_PASSPHRASE": "secret",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "CONSUL_HTTP_TOKEN": "secret",
    }
    inherited = clean_environment(operator)
    assert sorted(inherited) == [
        "HOME", "HTTPS_PROXY", "LANG", "PATH", "PIP_INDEX_URL", "https_proxy",
    ]  # fmt: skip
    assert inherited["PATH"].startswith("/usr/local/sbin")
