"""A Dask cluster of real processes, which stands in for separate machines in tests.

The sender is the machine that runs `harness`. Where this machine allows it, each worker has its own
network namespace and cannot see the files on the sender's disk. Elsewhere the workers only have
their own home, cache and working folders.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from harness.compiler.cache import MANIFEST, Cache, default_root
from harness.preflight import prepare
from harness.system import interpreter, leash
from tests.processes import Running

# One network namespace for this machine and one for each worker, joined by a bridge. The line with
# bwrap checks that a sandbox still works inside a namespace.
_SET_UP = """
set -e
mount -t tmpfs none /run && mkdir /run/netns && ip link set lo up
ip link add hub type bridge && ip addr add 10.77.0.1/24 dev hub && ip link set hub up
for n in 1 2; do
  ip netns add w$n && ip link add v$n type veth peer name eth0 netns w$n
  ip link set v$n master hub up && ip -n w$n addr add 10.77.0.1$n/24 dev eth0
  ip -n w$n link set eth0 up && ip -n w$n link set lo up
done
ip netns exec w1 bwrap --unshare-all --ro-bind / / true
echo ready; exec sleep infinity
"""
# This mounts an empty disk over a folder before the command runs.
_HIDE = 'mount -t tmpfs none "$0"; exec "$@"'
# This disk is too small for any build.
_FILL = 'mount -t tmpfs -o size=4k none "$0"; exec "$@"'
_HOST, _PORT = "10.77.0.1", 8786


class Network:
    """Network namespaces that stand in for machines: one for scheduler and sender, one per worker.

    The sender is the machine that runs `harness`. There are two workers.

    Attributes:
        is_there: True if this machine allows the namespaces.
        host: The scheduler's IP address.
        port: The scheduler's port.
    """

    def __init__(self) -> None:
        program = ["unshare", "-Urnmp", "--fork", "--kill-child", "--mount-proc", "sh", "-c"]
        self._process = subprocess.Popen(
            leash.command([*program, _SET_UP], signal.SIGKILL),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        self.is_there = self._process.stdout.readline() == "ready\n"
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        self._first = children.read_text().split()[0] if self.is_there else ""
        self.host = _HOST if self.is_there else "127.0.0.1"
        self.port = _PORT if self.is_there else _free_port()

    def inside(self, folder: Path, command: Sequence[str]) -> list[str]:
        """Return the command line that runs `command` in `folder`, in the scheduler's namespaces.

        If this machine allows no namespaces, return `command` itself.
        """
        if not self.is_there:
            return list(command)
        namespaces = ("-U", "-n", "-m", "-p", "--preserve-credentials", f"--wd={folder}")
        return ["nsenter", "-t", self._first, *namespaces, *command]

    def inside_worker(
        self, number: int, folder: Path, hidden: Path, command: Sequence[str]
    ) -> list[str]:
        """Return the command line that runs `command` in the namespaces of worker 1 or 2.

        The folder `hidden` is empty for this command. If this machine allows no namespaces, return
        `command` itself.
        """
        if not self.is_there:
            return list(command)
        hiding = ["ip", "netns", "exec", f"w{number}", "sh", "-c", _HIDE, str(hidden), *command]
        return self.inside(folder, hiding)

    def cut(self) -> None:
        """Cut every connection between the namespaces."""
        self._set_hub("down")

    def mend(self) -> None:
        """Restore the connections between the namespaces after `cut`."""
        self._set_hub("up")

    def _set_hub(self, state: str) -> None:
        command = ["ip", "link", "set", "hub", state]
        subprocess.run(self.inside(Path("/"), command), check=True)

    def close(self) -> None:
        """End the namespaces and every process that runs in them."""
        self._process.kill()
        self._process.wait()


class Cluster:
    """A Dask scheduler and its workers, each started by the command that users type.

    Attributes:
        sender: The folder in which `harness` runs. Workers in namespaces cannot see it.
        network: The network namespaces of the scheduler and the workers.
        address: The scheduler's address, such as `tcp://10.77.0.1:8786`.
    """

    def __init__(self, folder: Path, **variables: str) -> None:
        self._folder = folder
        self._variables = variables
        self.sender = folder / "sender"
        self.sender.mkdir()
        self.network = Network()
        self._started: list[Running] = []
        self.address = f"tcp://{self.network.host}:{self.network.port}"
        self.start_scheduler()

    def start_scheduler(self) -> None:
        """Start `dask scheduler`, as docs/cluster.md shows."""
        where = ("--host", self.network.host, "--port", str(self.network.port))
        folder = self._room("scheduler")
        command = self.network.inside(folder, _dask("scheduler", *where, "--no-dashboard"))
        self._scheduler = self._start(folder, command, self._variables)

    def stop_scheduler(self) -> None:
        """Kill the scheduler, and wait for its end."""
        pid = self._scheduler.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        # In namespaces the started process is nsenter, and its child is the scheduler.
        for each in map(int, children if self.network.is_there else [pid]):
            os.kill(each, signal.SIGKILL)
        assert self._scheduler.has_ended(60)

    def start_worker(
        self, number: int, name: str = "", *, has_full_disk: bool = False, **variables: str
    ) -> Running:
        """Start `dask worker` in a worker's namespaces, with its own home folder and cache.

        Args:
            number: The worker whose namespaces are used, 1 or 2.
            name: Name of the worker's folder; `worker1` or `worker2` by default.
            has_full_disk: True to place the cache on a disk that is too small for any build.
            **variables: Further environment variables.
        """
        home = self._room(name or f"worker{number}")
        cache = home / "cache"
        if not cache.exists():
            _give_libraries(cache / default_root().name)
        command = _dask("worker", self.address, "--nthreads", "1", "--no-dashboard")
        if has_full_disk:
            command = ["sh", "-c", _FILL, str(cache), *command]
        homes = {"HOME": str(home), "XDG_CACHE_HOME": str(cache)}
        inside = self.network.inside_worker(number, home, self.sender, command)
        return self._start(home, inside, {**homes, **self._variables, **variables})

    def harness(self, *arguments: str | Path) -> Running:
        """Start `harness ARGUMENTS` in the folder `sender`, with this cluster as its engine."""
        words = [*map(str, arguments), "--engine", "dask", "--scheduler", self.address]
        command = self.network.inside(self.sender, interpreter.command("harness", *words))
        return self._start(self.sender, command, {})

    def interrupt(self, running: Running) -> None:
        """Send SIGINT to a process that `self.harness` has started, as a terminal does at Ctrl-C.

        If the process runs in namespaces, `running` is its parent `nsenter`. The child gets SIGINT.
        """
        pid = running.pid
        if self.network.is_there:
            pid = int(Path(f"/proc/{pid}/task/{pid}/children").read_text())
        os.kill(pid, signal.SIGINT)

    def close(self) -> None:
        """End the namespaces and every process that this cluster has started."""
        self.network.close()
        for running in self._started:
            running.kill()

    def _room(self, name: str) -> Path:
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        return folder

    def _start(self, folder: Path, command: list[str], variables: dict[str, str]) -> Running:
        running = Running(command, folder, **variables)
        self._started.append(running)
        return running


def _dask(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "dask", *arguments]


def _give_libraries(cache: Path) -> None:
    """Fill a new cache with links to the harness's own compiled libraries.

    Otherwise each worker would compile these libraries, which takes a minute. Builds of submissions
    get no link.
    """
    # Otherwise each machine would compile them.
    prepare(Cache(default_root()))
    cache.mkdir(parents=True)
    for manifest in default_root().glob(f"*/{MANIFEST}"):
        if json.loads(manifest.read_text())["library"] not in ("module.so", "refusal.txt"):
            (cache / manifest.parent.name).symlink_to(manifest.parent)


def builds_in(folder: Path) -> set[str]:
    """Return the cache keys of the submissions' builds that a worker has stored.

    The argument is the worker's home folder, which contains the cache.
    """
    manifests = (folder / "cache").glob(f"*/*/{MANIFEST}")
    return {
        path.parent.name
        for path in manifests
        if json.loads(path.read_text())["library"] == "module.so"
    }


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
