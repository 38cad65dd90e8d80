"""Nomad's device plugin for the accelerators of a host. Nomad's agent starts it.

device_plugin.py --vendor nvidia|amd --record FILE [--mig] [--links N] [--lanes N]
    [--figures ADDRESS:PORT --certificate FOLDER --reader NAME]

With --figures it serves those of the devices to clients whose certificate has the reader's name.
"""

from __future__ import annotations

import argparse
import logging
import os
import platform
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
from accelerators.nvidia_signals import Expected
from accelerators.vendors import VENDORS, driver_of, open_log
from figures.exposition import exposition
from figures.server import serve
from health.loop import Follower
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
    # go-plugin reads the level from the start of each line, and knows this name.
    logging.addLevelName(logging.WARNING, "WARN")
    logging.basicConfig(format="[%(levelname)s] %(message)s", level=logging.INFO)
    ended = threading.Event()
    # SIGTERM ends it at once: Nomad starts a plugin again whose streams break, not one whose
    # streams end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to Nomad, too
    _start(lambda: _end_with_parent(ended))
    record = read_record(arguments.record, boot_id(), log.warning)
    expected = Expected(mig=arguments.mig, links=arguments.links, lanes=arguments.lanes)
    log_of_kernel = open_log(record.returned_at, log.warning)
    driver = driver_of(arguments.vendor, expected, log_of_kernel)
    watch = Watch(
        driver,
        record,
        log_position=lambda: log_of_kernel.position if log_of_kernel else -1,
        now_unix_s=time.time,
        say=log.warning,
    )
    follower = Follower(watch, ended)

    def work() -> None:
        if arguments.figures:
            _start(lambda: _serve_figures(arguments, watch))
        _start(follower.guard)
        follower.follow()

    plugin = DevicePlugin(NAME, driver, watch, follow=_once(work), ended=ended)
    with socket_folder() as folder:
        _serve(folder / "plugin", plugin, ended)
    return 0


def _serve(socket: Path, plugin: DevicePlugin, ended: threading.Event) -> None:
    server = grpc.server(ThreadPoolExecutor(CALLS_AT_ONCE))
    add_to(server, plugin, shut_down=ended.set)
    server.add_insecure_port(f"unix:{socket}")
    server.start()
    sys.stdout.write(f"{CORE_VERSION}|{PROTOCOL_VERSION}|unix|{socket}|grpc\n")
    sys.stdout.flush()
    ended.wait()
    plugin.end_streams()
    server.stop(GRACE_S).wait()


def _serve_figures(arguments: argparse.Namespace, watch: Watch) -> None:
    address, _, port = arguments.figures.rpartition(":")
    serve(
        (address, int(port)),
        arguments.certificate,
        arguments.reader,
        exposition(platform.node(), watch.known),
        warn=log.warning,
    )


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
    """Not by PR_SET_PDEATHSIG: the kernel sends it when the thread that started this process ends,
    not only with Nomad's agent."""
    parent = os.getppid()
    poll = select.poll()
    poll.register(os.pidfd_open(parent), select.POLLIN)
    if os.getppid() == parent:  # else it has ended meanwhile
        poll.poll()
    ended.set()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vendor", choices=VENDORS, required=True)
    parser.add_argument("--record", type=Path, required=True, help="file of the known faults")
    parser.add_argument("--mig", action="store_true", help="tasks get MIG instances")
    parser.add_argument("--links", type=int, help="NVLinks that a device has")
    parser.add_argument("--lanes", type=int, help="PCIe lanes that a device has")
    parser.add_argument("--figures", metavar="ADDRESS:PORT", help="where to serve the figures")
    parser.add_argument("--certificate", type=Path, help="folder of ca.pem, cert.pem, key.pem")
    parser.add_argument("--reader", help="name in the certificate of who may read the figures")
    return parser.parse_args()
