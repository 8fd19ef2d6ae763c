"""Run the README's two commands as a new user would, on test machines made by debootstrap.

    sudo PYTHONPATH=. python benchmarks/machines.py run FILE --roots FOLDER [--machine NAME ...]
    PYTHONPATH=. python benchmarks/machines.py table FILE --update docs/machines.md

A test machine is a root file system in which programs run with the rights of a container. `run`
makes these file systems, and keeps them in FOLDER. Each machine writes to a fresh overlay
(overlayfs) of its file system, which also has a clone of the repository's HEAD. `run` appends a
line of JSON for each machine to FILE, and writes the commands' output to FOLDER/logs. `--command`
names other commands, such as `make .venv/ready`. `list` lists the machines.

A machine sees nothing of the host except how to reach the network. `--pip-from-host` also shows it
the host's configuration of pip, and the files that this configuration needs.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from roots.image import IMAGES, MIRRORS, USER, USER_ID, ImageError, Images
from roots.table import Row, Run, counted, table, update
from roots.view import NETWORK, View, run

from harness.system import codec

COMMANDS = ("make test", "make leaderboard")
_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
_PIP_FILES = ("/etc/pip.conf", "/etc/xdg/pip", "/opt/wheels", "/opt/pypi", "/opt/pypi-more")
_PROXIES = ("http_proxy", "https_proxy", "no_proxy", "all_proxy")
_ASK_SECONDS = 300.0
# This program runs on a machine after its setup, and prints facts about it.
_FACTS = """
import json, platform, torch
from harness.sandbox import bubblewrap
print(json.dumps([platform.python_version(), torch.__version__, bubblewrap.why_not_usable()]))
"""


@dataclass(frozen=True)
class Machine:
    """The properties of a test machine.

    Attributes:
        release: Release of the machine's Linux distribution, such as `bookworm`.
        packages: Packages besides those that the README asks for.
        is_root: True if root runs the commands; otherwise an ordinary user does.
        project: Folder of the clone; a relative path is below the home folder.
        may_make_namespaces: True if the kernel lets programs make namespaces; Docker's default does
            not.
        has_read_only_home: True if the home folder cannot be written.
        has_toolkit: True if the machine sees the host's CUDA toolkit.
    """

    release: str
    packages: tuple[str, ...] = ()
    is_root: bool = False
    project: str = "project"
    may_make_namespaces: bool = True
    has_read_only_home: bool = False
    has_toolkit: bool = False

    @property
    def home(self) -> str:
        """Path of the home folder of the user who runs the commands."""
        return "/root" if self.is_root else f"/home/{USER}"


_PLAIN = Machine("bookworm")
_SANDBOX = ("bubblewrap",)
MACHINES: Mapping[str, Machine] = {
    "bookworm": _PLAIN,
    "bookworm-bubblewrap": replace(_PLAIN, packages=_SANDBOX),
    "bookworm-refused": replace(_PLAIN, packages=_SANDBOX, may_make_namespaces=False),
    "bookworm-spaces-read-only": replace(
        _PLAIN, project="/srv/my projects/the harness", has_read_only_home=True
    ),
    "bookworm-root": replace(_PLAIN, is_root=True),
    "bookworm-root-toolkit-browser": replace(
        _PLAIN, packages=(*_SANDBOX, "chromium"), is_root=True, has_toolkit=True
    ),
    "trixie": replace(_PLAIN, release="trixie"),
    "trixie-bubblewrap": replace(_PLAIN, release="trixie", packages=_SANDBOX),
    "jammy": replace(_PLAIN, release="jammy"),
    "jammy-bubblewrap": replace(_PLAIN, release="jammy", packages=_SANDBOX),
    "noble": replace(_PLAIN, release="noble"),
    "noble-bubblewrap": replace(_PLAIN, release="noble", packages=_SANDBOX),
}


@dataclass(frozen=True)
class Host:
    """The parts of the host that the test machines use.

    Attributes:
        roots: Folder for root file systems, runs and logs.
        images: Root file systems of the Linux releases.
        source: The repository whose HEAD is cloned.
        shows_pip: True if test machines see the host's configuration of pip, and its files.
        toolkit: Folder of a CUDA toolkit on the host.
    """

    roots: Path
    images: Images
    source: Path
    shows_pip: bool
    toolkit: Path

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables by which test machines reach the network and find packages."""
        names = [name for each in _PROXIES for name in (each, each.upper())]
        if self.shows_pip:
            names += [name for name in os.environ if name.startswith("PIP_")]
            names += ["SSL_CERT_FILE"]
        return {name: os.environ[name] for name in names if name in os.environ}


class Session:
    """A test machine with a fresh overlay of its root file system, which `close` discards.

    Raises:
        ImageError: The root file system cannot be made.
    """

    def __init__(self, name: str, machine: Machine, host: Host) -> None:
        self._name = name
        self._machine = machine
        self._host = host
        self._layers = host.images.layers(machine.release, machine.packages)
        self._written = host.roots / "runs" / name
        self._count = 0
        self._logs = host.roots / "logs"
        self._logs.mkdir(parents=True, exist_ok=True)
        self.close()
        self._written.mkdir(parents=True)

    def close(self) -> None:
        """Delete everything that the commands wrote to the test machine."""
        for folder in (self._written, self._written.with_name(f"{self._name}.work")):
            shutil.rmtree(folder, ignore_errors=True)

    def run(self, command: str, limit_s: float) -> Run:
        """Run a command in the clone, for at most `limit_s` seconds; return its outcome."""
        self._count += 1
        log = self._logs / f"{self._name}-{self._count}.log"
        ended = run(self._view(command), log, limit_s)
        return Run(command, ended.status, ended.seconds, **counted(log.read_text()))

    def facts(self) -> list[str]:
        """Return three texts: Python's version, torch's version, and the state of the sandbox.

        The state is `bubblewrap`, or the reason why bubblewrap cannot be used. A text that is
        unknown is empty.
        """
        log = self._logs / f"{self._name}-facts.log"
        command = shlex.join([".venv/bin/python", "-c", _FACTS])
        if run(self._view(command), log, _ASK_SECONDS).status:
            run(self._view("python3 --version"), log, _ASK_SECONDS)
            return [log.read_text().strip().removeprefix("Python "), "", ""]
        python, torch, why_not = json.loads(log.read_text().splitlines()[-1])
        return [python, torch, why_not or "bubblewrap"]

    def _view(self, command: str) -> View:
        machine, host = self._machine, self._host
        folder = str(Path(machine.home) / machine.project)
        shown = {"/usr/local/cuda": host.toolkit} if machine.has_toolkit else {}
        copied = dict(NETWORK)
        if host.shows_pip:
            shown |= {place: Path(place) for place in _PIP_FILES if Path(place).exists()}
            copied[str(_CERTIFICATES)] = _CERTIFICATES
        environment = host.environment
        if machine.has_toolkit:
            environment["CUDA_HOME"] = "/usr/local/cuda"
        return View(
            layers=self._layers,
            written=self._written,
            command=("/bin/sh", "-c", command),
            folder=folder,
            user_id=0 if machine.is_root else USER_ID,
            home=machine.home,
            environment={"USER": "root" if machine.is_root else USER, **environment},
            shown=shown,
            copied=copied,
            clone=(host.source, folder),
            read_only=(machine.home,) if machine.has_read_only_home else (),
            may_make_namespaces=machine.may_make_namespaces,
        )


def try_machine(name: str, host: Host, commands: Iterable[str], limit_s: float) -> Row:
    """Run commands on a test machine one after another, and return the machine's row.

    If the machine cannot be made, the row has the reason.
    """
    machine = MACHINES[name]
    image = IMAGES[machine.release].title
    head = subprocess.run(
        ["git", "-C", str(host.source), "rev-parse", "--short", "HEAD"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    today = datetime.now(UTC).date().isoformat()
    user = "root" if machine.is_root else "ordinary"
    try:
        session = Session(name, machine, host)
    except ImageError as error:
        return Row(name, image, user, "", "", "", head, today, why_not=str(error))
    try:
        runs = tuple(session.run(command, limit_s) for command in commands)
        python, torch, sandbox = session.facts()
    finally:
        session.close()
    return Row(name, image, user, python, torch, sandbox, head, today, runs)


def main() -> None:
    """Run the commands on test machines, list the machines, or print the table of earlier runs."""
    options = _options()
    if options.do == "list":
        print("\n".join(MACHINES))
        return
    if options.do == "table":
        text = table(_kept(options.file))
        if options.update:
            update(options.update, text)
        else:
            print(text)
        return
    if os.geteuid() != 0:
        sys.exit("only root can make root file systems; run: sudo PYTHONPATH=. python ...")
    mirrors = {**MIRRORS, **dict(each.split("=", 1) for each in options.mirror)}
    roots = options.roots.resolve()
    host = Host(
        roots,
        Images(roots, mirrors),
        Path(__file__).resolve().parents[1],
        options.pip_from_host,
        options.toolkit.resolve(),
    )
    for name in options.machine or MACHINES:
        row = try_machine(name, host, options.command or COMMANDS, options.limit)
        with options.file.open("a") as file:
            file.write(f"{codec.encode(row)}\n")
        print(table([row]), flush=True)


def _kept(file: Path) -> list[Row]:
    return [codec.decode(line, Row) for line in file.read_text().splitlines()]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Run the README's commands on machines.")
    todo = parser.add_subparsers(dest="do", required=True)
    runs = todo.add_parser("run", help="make machines and run commands there")
    runs.add_argument("file", type=Path, help="gets a line of JSON for each machine")
    runs.add_argument("--roots", type=Path, required=True, help="folder of what is kept")
    runs.add_argument("--machine", action="append", choices=MACHINES, help="default: all")
    runs.add_argument("--command", action="append", help=f"default: {', '.join(COMMANDS)}")
    runs.add_argument("--limit", type=float, default=5400.0, help="seconds for each command")
    runs.add_argument(
        "--mirror",
        action="append",
        default=[],
        metavar="ARCHIVE=URL",
        help=f"where packages are: {', '.join(MIRRORS)}",
    )
    runs.add_argument("--pip-from-host", action="store_true", help="its settings and files")
    runs.add_argument("--toolkit", type=Path, default=Path("/usr/local/cuda"), help="of CUDA")
    todo.add_parser("list", help="say which machines there are")
    tables = todo.add_parser("table", help="write what became of them")
    tables.add_argument("file", type=Path)
    tables.add_argument("--update", type=Path, metavar="MARKDOWN", help="a file with marks")
    return parser.parse_args()


if __name__ == "__main__":
    main()
