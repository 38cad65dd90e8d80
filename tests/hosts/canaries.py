"""The secrets of an environment that runs, and where they are seen by those who should not."""

from __future__ import annotations

import json
import re
import shlex
import stat
import subprocess
import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.hosts.bed import Bed, Host
from tests.hosts.environment import NAME, Checkout

SCRIPT = Path(__file__).with_name("on_host_search.py")
SEED = "random:index/randomPassword:RandomPassword"
# One line of it is enough: the first, because those of an elliptic curve end with its public part.
# In the text of a JSON document the lines end with escapes.
PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?:\s|\\+n)+([A-Za-z0-9+/=]{40,})")
PASSPHRASE = "PULUMI_CONFIG_PASSPHRASE"
OFTEN_S = 0.1
Found = list[tuple[str, str]]  # place, name of the secret


def secrets_of(checkout: Checkout, hosts: Bed, joined: Iterable[str]) -> dict[str, str]:
    """Name -> text: everything that nobody but its owner may know, and no certificate."""
    access = checkout.folder / ".slipway/access" / NAME
    found = {
        "the passphrase": checkout.environ[PASSPHRASE],
        "the operator's SSH key": _line_of(hosts.key.read_text()),
        "the operator's key": _line_of((access / "operator/key.pem").read_text()),
        "the operator's token of Consul": (access / "tokens/consul").read_text(),
        "the operator's token of Nomad": (access / "tokens/nomad").read_text(),
        **_of_state(checkout),
    }
    for name in joined:
        known = _of_host(hosts.hosts[name])
        found |= {f"{name}: {what}": text for what, text in known.items()}
    return found


def _of_state(checkout: Checkout) -> dict[str, str]:
    """The seeds of which others are derived, and every private key, also of authorities."""
    command = f"""
        eval "$(./slipway env -s {NAME})"
        pulumi stack export --show-secrets --stack {NAME}
    """
    done = subprocess.run(
        ["sh", "-ec", command],
        cwd=checkout.folder,
        env=checkout.environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seeds, keys = {}, dict[str, str]()
    for resource in json.loads(done.stdout)["deployment"]["resources"]:
        name = resource["urn"].rpartition("::")[2]
        if resource["type"] == SEED:
            seeds[name] = json.loads(resource["outputs"]["result"]["plaintext"])
        for line in PRIVATE_KEY.findall(json.dumps(resource)):
            keys.setdefault(line, f"a private key of {name}")
    numbered = {f"{name}, {k}": line for k, (line, name) in enumerate(keys.items())}
    return {**seeds, **numbered}


def _of_host(host: Host) -> dict[str, str]:
    """Its private keys, and what its agents' secrets.json have: tokens and keys of gossip."""
    listed = host.ssh(
        "find /var/lib/slipway \\( -name key.pem -o -name secrets.json \\) -type f"
        ' -exec sh -c \'for each; do echo "# $each"; cat "$each"; echo; done\' - {} +'
    )
    found = {}
    for path, content in re.findall(r"^# (\S+)\n(.*?)(?=^# |\Z)", listed, re.MULTILINE | re.DOTALL):
        if path.endswith("key.pem"):
            found[path] = _line_of(content)
        else:
            found |= {f"{path}, {key}": text for key, text in _leaves(json.loads(content))}
    return found


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """The texts of a JSON document that are long enough to be secrets."""
    if isinstance(value, Mapping):
        for key, below in value.items():
            yield from _leaves(below, f"{path}.{key}" if path else key)
    elif isinstance(value, str) and len(value) >= 20:
        yield path, value


def _line_of(key: str) -> str:
    found = PRIVATE_KEY.search(key)
    assert found is not None, "no private key"
    return found[1]


def seen_on(host: Host, secrets: Mapping[str, str]) -> Found:
    """Where a host shows them: processes, journal, units, files that others can read."""
    command = f"/usr/bin/python3 -c {shlex.quote(SCRIPT.read_text())}"
    found: list[list[str]] = json.loads(host.ssh(command, json.dumps(secrets)))
    return [(place, name) for place, name in found]


# The files of a host that have one of the texts of standard input, whoever may read them: mode,
# file system and path.
FILES_WITH = """
grep --recursive --files-with-matches --text --fixed-strings --file=- --devices=skip \\
    /etc /home /opt /root /run /srv /tmp /usr/local /var 2> /dev/null |
while read -r file; do
    kind=$(findmnt --noheadings --output=FSTYPE --target="$file")
    echo "$(stat --format=%a "$file") $kind $file"
done
"""


def files_with(host: Host, texts: Iterable[str]) -> list[tuple[str, str, str]]:
    """(mode, file system, path)"""
    found = host.ssh(FILES_WITH, "\n".join(texts))
    lines = [line.split(" ", 2) for line in found.splitlines()]
    return [(mode, kind, path) for mode, kind, path in lines]


def seen_by_the_operator(checkout: Checkout, secrets: Mapping[str, str]) -> Found:
    """Where the operator's machine shows them: in the state, in logs, in other files.

    The operator's own credentials, below .slipway/access, must be the operator's alone.
    """
    state = Path(checkout.environ["PULUMI_BACKEND_URL"].removeprefix("file://"))
    home, access = Path(checkout.environ["PULUMI_HOME"]), checkout.folder / ".slipway/access"
    found = []
    for path in _files(state, home, checkout.folder):
        private = not path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)
        if path.is_relative_to(access) and private:
            continue
        content = path.read_bytes()
        found += [(str(path), name) for name, text in secrets.items() if text.encode() in content]
    return found


def _files(*folders: Path) -> Iterator[Path]:
    for folder in folders:
        for path in folder.rglob("*"):
            if path.is_file() and not path.is_symlink():
                yield path


@contextmanager
def command_lines() -> Iterator[set[bytes]]:
    """Those of all processes meanwhile, of hosts too: this machine sees theirs. A process that ends
    within a tenth of a second may be missed."""
    seen: set[bytes] = set()
    over = threading.Event()

    def look() -> None:
        while not over.wait(OFTEN_S):
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    seen.add(path.read_bytes())
                except OSError:  # it has ended
                    continue

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield seen
    finally:
        over.set()
        watcher.join()


def shown(lines: set[bytes], secrets: Mapping[str, str]) -> list[str]:
    """The names of secrets that a command line had."""
    return [name for name, text in secrets.items() if any(text.encode() in line for line in lines)]


# Every place where the search must find what is planted, and some that only their owner can read.
PLANTING = """
umask 022
canary=%s
printf %%s $canary > /tmp/canary
mkdir -p /opt/canary && printf %%s $canary > /opt/canary/file
mkdir -m 700 /tmp/private && printf %%s $canary > /tmp/private/file
(umask 077 && printf %%s $canary > /var/lib/canary)
(umask 077 && printf %%s $canary > /run/systemd/system/canary.service)
echo $canary | systemd-cat -t canary
setpriv --reuid=65534 env A=$canary sleep 300 > /dev/null 2>&1 < /dev/null &
echo $!
python3 -c 'import time; time.sleep(300)' $canary > /dev/null 2>&1 < /dev/null &
echo $!
"""
PLANTED = [
    "/opt/canary/file",
    "/tmp/canary",
    "the command line of python3",
    "the journal",
    "the unit /run/systemd/system/canary.service",
    "the variables of sleep",
]
CLEANING = (
    "rm -r /tmp/canary /tmp/private /opt/canary /var/lib/canary /run/systemd/system/canary.service"
)


@contextmanager
def planted(host: Host) -> Iterator[str]:
    """A secret that a host shows in all places, and hides in some."""
    canary = uuid.uuid4().hex
    started = host.ssh("sh -s", PLANTING % canary).split()
    try:
        yield canary
    finally:
        host.ssh(f"kill {' '.join(started)}; {CLEANING}")
