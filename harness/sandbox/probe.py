"""A program that attempts what a sandbox must not allow.

Usage: `python -m harness.sandbox.probe ATTEMPT`. It prints a JSON object that has, for each layer,
what was wrongly possible, or "" if the layer holds.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import socket
import sys
import threading
from contextlib import suppress
from pathlib import Path

from harness.sandbox.limits import Limits
from harness.system.interpreter import PACKAGE

_CLONE_NEWUSER = 0x10000000
_CONNECT_SECONDS = 2.0
_STACK_BYTES = 64 << 10
# bubblewrap's own process, the holder of a fork's sandbox, and this process.
_OWN_PROCESSES = 3


def main() -> None:
    """Try to get through every layer of the sandbox, and print the results as JSON."""
    attempt = json.loads(sys.argv[1])
    limits = Limits(**attempt["limits"])
    limits.impose()
    found = {
        "files": _files(Path(attempt["secret"])),
        "network": _network(attempt["port"]),
        "processes": _processes(),
        "privileges": _privileges(),
        "environment": _environment(attempt["variable"]),
        "limits": _limits(limits),
    }
    print(json.dumps(found))


def _files(secret: Path) -> str:
    if secret.exists():
        return f"can read {secret}"
    for folder in (PACKAGE, Path(sys.prefix), Path("/usr"), Path("/")):
        probe = folder / f"sandbox-probe-{os.getpid()}"
        with suppress(OSError):
            probe.touch()
            probe.unlink()
            return f"can write to {folder}"
    return ""


def _network(port: int) -> str:
    with suppress(OSError):
        socket.create_connection(("127.0.0.1", port), _CONNECT_SECONDS).close()
        return "can connect to this machine"
    return ""


def _processes() -> str:
    seen = sum(path.name.isdigit() for path in Path("/proc").iterdir())
    return f"can see {seen} processes" if seen > _OWN_PROCESSES else ""


def _privileges() -> str:
    status = Path("/proc/self/status").read_text()
    fields = dict(line.split(":", 1) for line in status.splitlines())
    if int(fields["CapBnd"], 16):
        return "can have capabilities"
    if fields["NoNewPrivs"].strip() != "1":
        return "can gain privileges"
    if ctypes.CDLL(None).unshare(_CLONE_NEWUSER) == 0:
        return "can create namespaces"
    return ""


def _environment(variable: str) -> str:
    return f"can see the variable {variable}" if variable in os.environ else ""


def _limits(limits: Limits) -> str:
    if resource.getrlimit(resource.RLIMIT_DATA)[1] > limits.memory_bytes:
        return "can take any amount of memory"
    if resource.getrlimit(resource.RLIMIT_FSIZE)[1] > limits.file_bytes:
        return "can write files of any size"
    if _starts_threads(limits.threads + 1):
        return "can start any number of processes"
    return ""


def _starts_threads(count: int) -> bool:
    """Return whether this process can start `count` threads.

    The kernel counts threads as processes, so the result is also true of processes.
    """
    threading.stack_size(_STACK_BYTES)
    end = threading.Event()
    threads = [threading.Thread(target=end.wait) for _ in range(count)]
    try:
        for thread in threads:
            thread.start()
    except RuntimeError:
        return False
    finally:
        end.set()
    return True


if __name__ == "__main__":
    main()
