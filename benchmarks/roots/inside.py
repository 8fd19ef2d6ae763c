"""Mount a root file system, give up rights and run a program; started by `view.run`.

This program runs in new namespaces, as process 1, and so waits for all other processes in them. It
uses only the standard library, because it is started by its path.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import shutil
import socket
import stat
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

_DEVICES = {"null": 3, "zero": 5, "full": 7, "random": 8, "urandom": 9}
# The rights of a container's root: chown, dac_override, fowner, fsetid, kill, setgid, setuid,
# setpcap, net_bind_service, net_raw, sys_chroot, mknod, audit_write, setfcap.
_CAPABILITIES = {0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31}
_LAST_CAPABILITY = Path("/proc/sys/kernel/cap_last_cap")
_PR_CAPBSET_DROP, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 24, 22, 2
_MNT_DETACH = 2

# Opcodes of a seccomp filter: load a word of the system call's data, compare it, test its bits,
# return.
_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
_EPERM, _ENOSYS = 1, 38
_X86_64 = 0xC000003E
_CLONE, _UNSHARE, _SETNS, _CLONE3 = 56, 272, 308, 435
_NEW_NAMESPACES = 0x7E020000
_WITHOUT_NAMESPACES = (
    (_LOAD, 0, 0, _ARCHITECTURE),
    (_EQUAL, 0, 7, _X86_64),
    (_LOAD, 0, 0, _NUMBER),
    (_EQUAL, 5, 0, _UNSHARE),
    (_EQUAL, 4, 0, _SETNS),
    # The flags of clone3 are in memory, which a filter cannot read. ENOSYS makes programs use
    # clone.
    (_EQUAL, 5, 0, _CLONE3),
    (_EQUAL, 0, 3, _CLONE),
    (_LOAD, 0, 0, _FIRST_ARGUMENT),
    (_ANY_BIT, 0, 1, _NEW_NAMESPACES),
    (_RETURN, 0, 0, _ERROR | _EPERM),
    (_RETURN, 0, 0, _ALLOW),
    (_RETURN, 0, 0, _ERROR | _ENOSYS),
)

_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Set up the root file system that the JSON argument describes, and run the program in it.

    This process ends with the program's exit status.
    """
    told: dict[str, Any] = json.loads(sys.argv[1])
    root = Path(told["place"])
    _mount_root(root, told)
    _mount_kernels(root)
    for place, path in told["copied"].items():
        target = root / place.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        shutil.copy(path, target)
    for place, path in told["shown"].items():
        _show(Path(path), root / place.lstrip("/"))
    if told["clone"]:
        source, place = told["clone"]
        _clone(source, place, root, told["user_id"])
    for place in told["read_only"]:
        path = root / place.lstrip("/")
        _mount("--bind", str(path), str(path))
        _mount("-o", "remount,bind,ro", str(path))
    socket.sethostname("machine")
    last = int(_LAST_CAPABILITY.read_text())
    _enter(root)
    program = os.fork()
    if program == 0:
        try:
            _become(told, last)
        except OSError as error:
            print(f"inside.py: {error}", file=sys.stderr, flush=True)
            os._exit(126)
    while True:
        process, status = os.wait()
        if process == program:
            sys.exit(os.waitstatus_to_exitcode(status) % 256)


def _mount_root(root: Path, told: dict[str, Any]) -> None:
    written = Path(told["written"])
    work = written.with_name(f"{written.name}.work")
    work.mkdir(exist_ok=True)
    options = f"lowerdir={':'.join(told['layers'])},upperdir={written},workdir={work}"
    _mount("-t", "overlay", "overlay", "-o", options, str(root))


def _mount_kernels(root: Path) -> None:
    """Mount /proc, /sys and /dev in the root file system, as in a container."""
    _mount("-t", "proc", "proc", str(root / "proc"))
    _mount("--bind", "/sys", str(root / "sys"))
    _mount("-o", "remount,bind,ro", str(root / "sys"))
    dev = root / "dev"
    _mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", str(dev))
    os.umask(0)
    for name, minor in _DEVICES.items():
        os.mknod(dev / name, stat.S_IFCHR | 0o666, os.makedev(1, minor))
    os.mknod(dev / "tty", stat.S_IFCHR | 0o666, os.makedev(5, 0))
    os.umask(0o022)
    for name, target in {"fd": "", "stdin": "/0", "stdout": "/1", "stderr": "/2"}.items():
        (dev / name).symlink_to(f"/proc/self/fd{target}")
    for name in ("pts", "shm"):
        (dev / name).mkdir()
    _mount("-t", "devpts", "-o", "newinstance,ptmxmode=0666", "devpts", str(dev / "pts"))
    _mount("-t", "tmpfs", "tmpfs", str(dev / "shm"))
    (dev / "ptmx").symlink_to("pts/ptmx")


def _show(path: Path, target: Path) -> None:
    if path.is_dir():
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    _mount("--bind", str(path), str(target))
    _mount("-o", "remount,bind,ro", str(target))


def _clone(source: str, place: str, root: Path, user_id: int) -> None:
    """Clone the repository `source` to `place` in the root file system, owned by the user."""
    target = root / place.lstrip("/")
    if target.exists():
        return
    for folder in reversed(target.relative_to(root).parents):
        made = root / folder
        if not made.exists():
            made.mkdir()
            os.chown(made, user_id, user_id)
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", source, str(target)], check=True)
    for folder_name, _, names in os.walk(target):
        for name in (".", *names):
            os.lchown(Path(folder_name) / name, user_id, user_id)


def _enter(root: Path) -> None:
    """Make `root` the root folder of this process, by pivot_root.

    After a chroot, programs could not make namespaces.
    """
    os.chdir(root)
    subprocess.run(["pivot_root", ".", "."], check=True)
    if _libc.umount2(b".", _MNT_DETACH):
        raise OSError(ctypes.get_errno(), "the old root stays")
    os.chdir("/")


def _become(told: dict[str, Any], last_capability: int) -> None:
    """Give up rights that the program should not have, and replace this process by the program."""
    if not told["may_make_namespaces"]:
        _refuse_namespaces()
    if not told["is_privileged"]:
        for capability in set(range(last_capability + 1)) - _CAPABILITIES:
            _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    user_id = told["user_id"]
    os.setgroups([])
    os.setgid(user_id)
    os.setuid(user_id)
    os.chdir(told["folder"])
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    environment = {"PATH": path, "HOME": told["home"], "LANG": "C.UTF-8", **told["environment"]}
    os.execvpe(told["command"][0], told["command"], environment)  # noqa: S606 - as it is given


def _refuse_namespaces() -> None:
    if platform.machine() != "x86_64":
        raise OSError("which system calls make namespaces is known for x86-64 alone")
    code = ctypes.create_string_buffer(
        b"".join(struct.pack("HBBI", *step) for step in _WITHOUT_NAMESPACES)
    )
    program = struct.pack("HxxxxxxP", len(_WITHOUT_NAMESPACES), ctypes.addressof(code))
    if _libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, program, 0, 0):
        raise OSError(ctypes.get_errno(), "the kernel takes no filter")


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


if __name__ == "__main__":
    main()
