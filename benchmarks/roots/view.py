"""Run a program that sees only one root file system, with the rights of a container."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

NETWORK: Mapping[str, Path] = {
    name: Path(name) for name in ("/etc/resolv.conf", "/etc/hosts") if Path(name).exists()
}
"""Files of the host that tell a machine about the network."""

_INSIDE = Path(__file__).parent / "inside.py"


@dataclass(frozen=True)
class View:
    """A program to run, and the files and rights that it has.

    Attributes:
        layers: Layers of the root file system, uppermost first; none of them is written.
        written: Folder that receives what the program writes.
        command: The program with its arguments.
        folder: Working folder of the program.
        user_id: User id of the program.
        home: Home folder of that user.
        environment: Environment variables besides PATH, HOME and LANG.
        shown: Files and folders of the host that the program can only read. A key is the path that
            the program sees, and its value is the path on the host.
        copied: Files of the host of which the program gets a copy. A key is the path of the copy,
            and its value is the path on the host.
        clone: A repository on the host, and the folder for a clone of it; None for no clone.
        read_only: Folders of the root file system that cannot be written.
        is_privileged: True if the program has all rights of root; a container's root has few.
        may_make_namespaces: True if the kernel lets the program make namespaces; a container's
            default does not.
    """

    layers: tuple[Path, ...]
    written: Path
    command: tuple[str, ...]
    folder: str = "/"
    user_id: int = 0
    home: str = "/root"
    environment: Mapping[str, str] = field(default_factory=dict)
    shown: Mapping[str, Path] = field(default_factory=dict)
    copied: Mapping[str, Path] = field(default_factory=dict)
    clone: tuple[Path, str] | None = None
    read_only: tuple[str, ...] = ()
    is_privileged: bool = False
    may_make_namespaces: bool = True


@dataclass(frozen=True)
class Ended:
    """The way in which a program ended.

    Attributes:
        status: Exit status; None if the program exceeded its limit and was killed.
        seconds: Duration in seconds.
    """

    status: int | None
    seconds: float


def run(view: View, log: Path, limit_s: float) -> Ended:
    """Run a view's program; when it ends, all processes that it started end too.

    Args:
        view: The program, with its files and rights.
        log: File for the program's output.
        limit_s: Most seconds that the program may take.
    """
    with tempfile.TemporaryDirectory(prefix="root-", dir=view.written.parent) as place:
        told = json.dumps({**asdict(view), "place": place}, default=str)
        command = [
            *("unshare", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child"),
            *("--propagation", "private", sys.executable, "-I", str(_INSIDE), told),
        ]
        start = time.monotonic()
        with log.open("w") as output:
            try:
                done = subprocess.run(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    check=False,
                    timeout=limit_s,
                )
            except subprocess.TimeoutExpired:
                return Ended(None, time.monotonic() - start)
        return Ended(done.returncode, time.monotonic() - start)
