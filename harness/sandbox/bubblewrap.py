"""The command line of bubblewrap, which makes the namespaces."""

from __future__ import annotations

import functools
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.sandbox import view
from harness.sandbox.limits import Limits

INSTALL = "apt-get install bubblewrap"
ALLOW = (
    "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0 user.max_user_namespaces=10000, "
    "or start the container with --security-opt seccomp=unconfined --security-opt "
    "apparmor=unconfined"
)
SCRATCH = "/tmp"  # noqa: S108 - the sandbox's own, in its memory
_SHARED_MEMORY_BYTES = 256 << 20
_USER = "1000"
_PROBE_SECONDS = 120.0

_NAMESPACES = (
    "--unshare-user",
    "--unshare-pid",
    "--unshare-net",
    "--unshare-ipc",
    "--unshare-uts",
    "--unshare-cgroup-try",
    # The kernel's own doors: no namespaces inside, no capabilities.
    "--disable-userns",
    "--cap-drop",
    "ALL",
    "--uid",
    _USER,
    "--gid",
    _USER,
    "--hostname",
    "sandbox",
    "--die-with-parent",
)


def usable() -> Path | None:
    """Bubblewrap's program, where it is installed and may make its namespaces on this machine."""
    program = _program()
    return None if program is None or _why_not(program) else program


def why_not_usable() -> str:
    """What keeps bubblewrap from working here, with what to do; empty where it works."""
    program = _program()
    return f"bubblewrap is not installed; run: {INSTALL}" if program is None else _why_not(program)


@functools.cache
def _why_not(program: Path) -> str:
    """The same of a program; tried once in a process."""
    command = [str(program), *options({}, Limits(1 << 30), [], []), "/bin/true"]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_PROBE_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{program} does not run: {error}"
    if done.returncode == 0:
        return ""
    said = done.stderr.strip().removeprefix("bwrap: ") or f"status {done.returncode}"
    return f"{program} may not make namespaces here ({said}); run: {ALLOW}"


def _program() -> Path | None:
    found = shutil.which("bwrap")
    return Path(found) if found else None


def options(
    environment: Mapping[str, str],
    limits: Limits,
    readable: Sequence[Path],
    devices: Sequence[Path],
) -> list[str]:
    """Everything between `bwrap` and the command that runs inside.

    Args:
        environment: All of it.
        limits: Of which the scratch folder's size is bubblewrap's.
        readable: What is seen beside the system's own folders; all of it read-only.
        devices: Of /dev, beside the harmless ones.
    """
    words = [*_NAMESPACES, "--clearenv"]
    for name, value in environment.items():
        words += ["--setenv", name, value]
    words += ["--size", str(limits.scratch_bytes), "--tmpfs", SCRATCH]
    words += ["--proc", "/proc", "--dev", "/dev"]
    words += ["--size", str(_SHARED_MEMORY_BYTES), "--tmpfs", "/dev/shm"]  # noqa: S108
    for path in devices:
        words += ["--dev-bind", str(path), str(path)]
    for path in view.outermost((*view.system(), *_both_names(readable))):
        if path.parent == Path("/") and path.is_symlink():
            words += ["--symlink", str(path.readlink()), str(path)]
        else:
            words += ["--ro-bind", str(path), str(path)]
    return [*words, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", SCRATCH]


def _both_names(paths: Sequence[Path]) -> list[Path]:
    """Each path as it was given and without symbolic links, since programs ask for either."""
    return [name for path in paths for name in (path.absolute(), path.resolve())]
