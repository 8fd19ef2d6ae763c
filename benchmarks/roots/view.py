"""Run a program that sees one root file system alone, as in a container."""

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
"""What a machine is told of the network that it is in."""

_INSIDE = Path(__file__).parent / "inside.py"


@dataclass(frozen=True)
class View:
    """What a program sees, and what it may do.

    Attributes:
        layers: Of its root file system, the uppermost first; none is written to.
        written: Folder of what it writes.
        command: The program with its arguments.
        folder: Where it begins.
        user_id: Whose it is.
        home: That user's.
        environment: All of it.
        shown: Files and folders of the host's, where they are shown; they can be read alone.
        copied: Files of the host's that are copied there.
        clone: A repository and the folder that gets a clone of it; None for nothing.
        read_only: Folders of the root file system that cannot be written.
        is_privileged: Whether it has all of root's rights, where a container's has few.
        may_make_namespaces: Whether the kernel lets it; a container's default is not to.
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
    """How a program ended.

    Attributes:
        status: Its exit status; None where it took too long and was killed.
        seconds: How long it took.
    """

    status: int | None
    seconds: float


def run(view: View, log: Path, limit_s: float) -> Ended:
    """Run a view's program; all that it starts ends with it.

    Args:
        view: What it sees.
        log: Where what it prints goes.
        limit_s: How long it may take.
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
