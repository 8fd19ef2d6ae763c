"""The command line of bubblewrap, which makes the namespaces."""

from __future__ import annotations

import functools
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from harness.sandbox import view
from harness.sandbox.limits import Limits

INSTALL = "apt-get install bubblewrap"
ALLOW = (
    "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0 user.max_user_namespaces=10000, "
    "or start the container with --security-opt seccomp=unconfined --security-opt "
    "apparmor=unconfined"
)
SCRATCH = "/home/sandbox"
"""The working, home and temporary folder inside, in memory."""
# Programs write there by name, whatever the environment says.
_ALSO_WRITABLE = ("/tmp", "/dev/shm")  # noqa: S108 - the sandbox's own
_ALSO_WRITABLE_BYTES = 256 << 20
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
    command = [str(program), *options({}, Limits(1 << 30), [], {}, []), "/bin/true"]
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
    placed: Mapping[Path, Path],
    devices: Sequence[Path],
) -> list[str]:
    """Everything between `bwrap` and the command that runs inside.

    Args:
        environment: All of it.
        limits: Of which the scratch folder's size is bubblewrap's.
        readable: What is seen, where it lies, beside the system's own folders; all of it read-only.
        placed: Files that are seen elsewhere than they lie, with where; read-only, too.
        devices: Of /dev, beside the harmless ones.
    """
    words = [*_NAMESPACES, "--clearenv"]
    for name, value in environment.items():
        words += ["--setenv", name, value]
    words += ["--proc", "/proc", "--dev", "/dev"]
    words += ["--size", str(limits.scratch_bytes), "--tmpfs", SCRATCH]
    for folder in _ALSO_WRITABLE:
        words += ["--size", str(_ALSO_WRITABLE_BYTES), "--tmpfs", folder]
    for path in devices:
        words += ["--dev-bind", str(path), str(path)]
    shown = view.outermost((*view.system(), *_both_names(readable)))
    # Folders that lead to what is shown are the sandbox's own; below a writable one they would be
    # writable, too.
    ways = _folders_below_writable((*shown, *placed.values()))
    for folder in ways:
        words += ["--tmpfs", folder]
    for path in shown:
        if path.parent == Path("/") and path.is_symlink():
            words += ["--symlink", str(path.readlink()), str(path)]
        else:
            words += ["--ro-bind", str(path), str(path)]
    for path, place in placed.items():
        words += ["--ro-bind", str(path), str(place)]
    for folder in (*ways, "/dev", "/"):
        words += ["--remount-ro", folder]
    return [*words, "--chdir", SCRATCH]


def _folders_below_writable(shown: Iterable[Path]) -> list[str]:
    """The outermost folders, in those that are writable inside, that lead to a path shown."""
    found = set()
    for path in shown:
        for folder in map(Path, (SCRATCH, *_ALSO_WRITABLE)):
            if path.is_relative_to(folder) and len(path.relative_to(folder).parts) > 1:
                found.add(str(folder / path.relative_to(folder).parts[0]))
    return sorted(found)


def _both_names(paths: Sequence[Path]) -> list[Path]:
    """Each path as it was given and without symbolic links, since programs ask for either."""
    return [name for path in paths for name in (path.absolute(), path.resolve())]
