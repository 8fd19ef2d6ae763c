"""Tries everything that a sandbox must not allow, and tells what worked."""

import ctypes
import os
import socket
import sys
from pathlib import Path

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(in_channels, out_channels, kernel_size))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


def works(attempt) -> bool:
    try:
        attempt()
    except Exception:
        return False
    return True


def connect() -> None:
    socket.create_connection(("127.0.0.1", 9), 1)


def resolve() -> None:
    socket.getaddrinfo("pypi.org", 443)


def sees_the_trusted_side() -> None:
    commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline")]
    if not any(b"harness.engines.evaluator" in command for command in commands):
        raise LookupError


def mounts() -> None:
    if ctypes.CDLL(None).unshare(0x10000000):
        raise PermissionError


def knows_a_variable() -> None:
    if not {"PYTEST_CURRENT_TEST", "SECRET_TOKEN", "SSH_AUTH_SOCK"} & set(os.environ):
        raise LookupError


def has_a_terminal() -> None:
    Path("/dev/tty").read_bytes()


def cache() -> Path:
    """Where the simulator's own libraries lie, which are let in alone."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    library = next(line.split()[-1] for line in lines if "libharness_device" in line)
    return Path(library).parents[1]


HERE = Path(__file__).parent
ATTEMPTS = {
    "reads a file of the machine": Path("/etc/passwd").read_text,
    "reads its neighbour": (HERE / "killed.py").read_text,
    "reads the tests": (HERE.parents[1] / "support.py").read_text,
    "reads the cache": lambda: next(cache().glob("*/manifest.json")),
    "changes its own file": lambda: Path(__file__).open("a"),
    "removes its own file": Path(__file__).unlink,
    "writes beside the harness": (Path(sys.modules["harness"].__file__).parents[1] / "new.py").touch,
    "writes beside Python": (Path(sys.prefix) / "new.py").touch,
    "writes into the harness": lambda: (Path(sys.modules["harness"].__file__)).open("a"),
    "writes into torch": lambda: (Path(torch.__file__).parent / "new.py").touch(),
    "writes into the root": Path("/new.txt").touch,
    "connects": connect,
    "resolves a name": resolve,
    "sees other processes": sees_the_trusted_side,
    "makes namespaces": mounts,
    "knows the environment": knows_a_variable,
    "has a terminal": has_a_terminal,
}
found = [what for what, attempt in ATTEMPTS.items() if works(attempt)]
Path("scratch.txt").write_text("it may write here")
(HERE / "new.txt").write_text("this lies in the sandbox alone")
raise RuntimeError(f"holes: {found}")
