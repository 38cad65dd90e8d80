"""Nomad's device plugin for the accelerators of a host. Nomad's agent starts it.

device_plugin.py --vendor nvidia|amd --record FILE [--mig] [--links N] [--lanes N]
"""

from __future__ import annotations

import argparse
import logging
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
from accelerators.driver import Driver
from accelerators.nvidia_signals import Expected
from accelerators.vendors import VENDORS, driver_of
from health.loop import follow
from health.record import boot_id, read_record
from health.watch import Watch

from nomad_plugin.service import DevicePlugin, add_to
from nomad_plugin.socket_folder import socket_folder

NAME = "slipway-devices"
COOKIE = "NOMAD_PLUGIN_MAGIC_COOKIE"
CORE_VERSION, PROTOCOL_VERSION = 1, 2  # of go-plugin, and of Nomad's plugins
CALLS_AT_ONCE = 8  # two of them are streams that last
GRACE_S = 1.0

log = logging.getLogger(NAME)


def main() -> int:
    arguments = _arguments()
    if COOKIE not in os.environ:
        sys.stderr.write("this is a plugin of Nomad, which its agent starts\n")
        return 2
    # go-plugin reads the level from the start of each line.
    logging.basicConfig(format="[%(levelname)s] %(message)s", level=logging.INFO)
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to Nomad, too
    _start(lambda: _end_with_parent(ended))
    record = read_record(arguments.record, boot_id(), log.warning)
    expected = Expected(mig=arguments.mig, links=arguments.links, lanes=arguments.lanes)
    driver = driver_of(arguments.vendor, expected, log_since_s=record.returned_s, say=log.warning)
    watch = Watch(driver, record, now_unix_s=time.time, say=log.warning)
    with socket_folder() as folder:
        _serve(folder / "plugin", driver, watch, ended)
    return 0


def _serve(socket: Path, driver: Driver, watch: Watch, ended: threading.Event) -> None:
    server = grpc.server(ThreadPoolExecutor(CALLS_AT_ONCE))
    follower = _once(lambda: _follow(watch, ended))
    plugin = DevicePlugin(NAME, driver, watch, follow=follower, ended=ended)
    add_to(server, plugin, shut_down=ended.set)
    server.add_insecure_port(f"unix:{socket}")
    server.start()
    sys.stdout.write(f"{CORE_VERSION}|{PROTOCOL_VERSION}|unix|{socket}|grpc\n")
    sys.stdout.flush()
    ended.wait()
    watch.wake()
    server.stop(GRACE_S).wait()


def _follow(watch: Watch, ended: threading.Event) -> None:
    """A plugin that can no longer follow its devices ends: Nomad starts another one."""
    try:
        follow(watch, ended)
    except Exception:
        log.exception("the devices can no longer be followed")
        raise
    finally:
        ended.set()


def _once(work: Callable[[], None]) -> Callable[[], None]:
    """Starts the work in a thread, at the first call."""
    lock, started = threading.Lock(), threading.Event()

    def start() -> None:
        with lock:
            if not started.is_set():
                started.set()
                _start(work)

    return start


def _start(work: Callable[[], None]) -> None:
    threading.Thread(target=work, daemon=True).start()


def _end_with_parent(ended: threading.Event) -> None:
    """Not by PR_SET_PDEATHSIG: it is sent when a thread of Nomad's agent ends."""
    poll = select.poll()
    poll.register(os.pidfd_open(os.getppid()), select.POLLIN)
    poll.poll()
    ended.set()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vendor", choices=VENDORS, required=True)
    parser.add_argument("--record", type=Path, required=True, help="file of the known faults")
    parser.add_argument("--mig", action="store_true", help="tasks get MIG instances")
    parser.add_argument("--links", type=int, help="NVLinks that a device has")
    parser.add_argument("--lanes", type=int, help="PCIe lanes that a device has")
    return parser.parse_args()
