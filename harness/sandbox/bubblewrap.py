"""Command lines for bubblewrap (`bwrap`), the program that creates the sandbox's namespaces."""

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
"""The working, home and temporary folder inside the sandbox; it lies in memory."""
# Programs write to these folders by name, whatever TMPDIR is.
_ALSO_WRITABLE = ("/tmp", "/dev/shm")  # noqa: S108 - the sandbox's own
# Submissions write sources and builds beside their own file, which is read-only itself.
_BESIDE_SUBMISSION = str(view.SUBMISSIONS)
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
    # The process inside cannot create further namespaces, and has no capabilities.
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
    """Return the path of `bwrap`, or None if it is missing or cannot create namespaces here."""
    program = _program()
    return None if program is None or _why_not(program) else program


def why_not_usable() -> str:
    """Return why bubblewrap does not work on this machine, with a remedy; empty if it works."""
    program = _program()
    return f"bubblewrap is not installed; run: {INSTALL}" if program is None else _why_not(program)


@functools.cache
def _why_not(program: Path) -> str:
    """Return why a trial run of `bwrap` fails, or ""; the trial is made once for each process."""
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
    return f"{program} is not allowed to create namespaces here ({said}); run: {ALLOW}"


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
    """Return the arguments of `bwrap` that precede the command to run in the sandbox.

    Args:
        environment: The complete environment of the command.
        limits: The resource limits; bubblewrap itself enforces only the size of the scratch folder.
        readable: Files and folders, besides the system's folders, to show read-only at their own
            paths.
        placed: Files to show read-only at other paths: for each real path, the path in the sandbox.
        devices: Device files to show in /dev, besides harmless ones such as /dev/null.
    """
    words = [*_NAMESPACES, "--clearenv"]
    for name, value in environment.items():
        words += ["--setenv", name, value]
    words += ["--proc", "/proc", "--dev", "/dev"]
    words += ["--size", str(limits.scratch_bytes), "--tmpfs", SCRATCH]
    for folder in (*_ALSO_WRITABLE, _BESIDE_SUBMISSION):
        words += ["--size", str(_ALSO_WRITABLE_BYTES), "--tmpfs", folder]
    for path in devices:
        words += ["--dev-bind", str(path), str(path)]
    shown = view.outermost((*view.system(), *_both_names(readable)))
    # bubblewrap creates the parent folders of each path shown. Inside a writable folder they would
    # be writable too, so the outermost of them gets its own file system, which is remounted
    # read-only.
    ways = _folders_below_writable((*shown, *placed.values()))
    for folder in ways:
        words += ["--tmpfs", folder]
    for path in shown:
        # With a merged /usr, /bin and /lib are links. They stay links inside.
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
    """Return the folders directly below the sandbox's writable folders that contain a shown path.

    If a shown path is itself directly below a writable folder, no folder is returned for it.
    """
    found = set()
    for path in shown:
        for folder in map(Path, (SCRATCH, *_ALSO_WRITABLE)):
            if path.is_relative_to(folder) and len(path.relative_to(folder).parts) > 1:
                found.add(str(folder / path.relative_to(folder).parts[0]))
    return sorted(found)


def _both_names(paths: Sequence[Path]) -> list[Path]:
    """Return two paths for each given path: absolute, and with symbolic links resolved.

    A program may open a file under either path.
    """
    return [name for path in paths for name in (path.absolute(), path.resolve())]
