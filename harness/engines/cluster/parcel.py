"""Parcels: requests with the contents of the files that they name, sent to another machine."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from harness.compiler.cache import digest
from harness.evaluate import Request
from harness.sandbox import bubblewrap, view
from harness.speed.plan import SpeedPlan
from harness.system import codec
from harness.system.errors import UsageError

Contents = Mapping[str, bytes]
"""Contents of files by name; a name may contain folders."""

_MOST_BYTES = 256 << 20


class UnpackError(ValueError):
    """A parcel cannot be unpacked on this machine; the message gives the reason in one line."""


@dataclass(frozen=True)
class ReadableFiles:
    """Additional files that submissions may read (`--readable`); many requests share them.

    Attributes:
        files: Content of each file, by its path on the sender's machine.
        key: Digest of the files' paths and contents.
    """

    files: Contents
    key: str


@dataclass(frozen=True)
class Parcel:
    """A request with the contents of its files, to be sent to another machine.

    Attributes:
        request: The request as JSON; its paths are those of the sender's machine.
        submission: Contents of the submission's file, and of the source files beside this file that
            the submission may read. The keys are paths relative to the submission's folder.
        problem: Content of the reference's file.
    """

    request: str
    submission: Contents
    problem: bytes

    @cached_property
    def asked(self) -> Request:
        """The request, decoded from JSON; its paths are those of the sender's machine."""
        return codec.decode(self.request, Request)

    @cached_property
    def digest(self) -> str:
        """Digest of the names and contents of the submission's and the reference's files."""
        asked = self.asked
        return digest((key_of(self.submission), key_of({asked.problem.name: self.problem})))


def pack(request: Request) -> Parcel:
    """Return a request with the contents of its files, but without the files in `readable`.

    Raises:
        OSError: A file cannot be read.
    """
    folder = request.submission.parent
    files = view.of_submission(request.submission)
    return Parcel(
        codec.encode(_bare(request)),
        {path.relative_to(folder).as_posix(): path.read_bytes() for path in files},
        request.problem.read_bytes(),
    )


@dataclass(frozen=True)
class TimingParcel:
    """A plan of a speed measurement with the contents of its files, to be sent to another machine.

    Attributes:
        plan: The plan as JSON; its paths are those of the sender's machine.
        entries: A parcel for each submission that the plan times, in the plan's order.
    """

    plan: str
    entries: tuple[Parcel, ...]


def pack_plan(plan: SpeedPlan) -> TimingParcel:
    """Return a parcel: a speed plan and the contents of its files; raise the errors of `pack`."""
    requests = (replace(plan.request, submission=entry.path) for entry in plan.entries)
    bare = replace(plan, request=_bare(plan.request))
    return TimingParcel(codec.encode(bare), tuple(map(pack, requests)))


def _bare(request: Request) -> Request:
    """Return the request without `cache` and `readable`, which name paths of the sender only."""
    return replace(request, cache=Path(), readable=())


def unpack_plan(parcel: TimingParcel, unpacked: Callable[[Parcel], Request]) -> SpeedPlan:
    """Return the plan with paths of this machine; call `unpacked` to write each parcel's files."""
    plan = codec.decode(parcel.plan, SpeedPlan)
    requests = [unpacked(each) for each in parcel.entries]
    entries = tuple(
        replace(entry, path=request.submission)
        for entry, request in zip(plan.entries, requests, strict=True)
    )
    return replace(plan, request=requests[0], entries=entries)


def pack_readable(paths: Iterable[Path]) -> ReadableFiles:
    """Return the contents of the files at or below `paths`, to be sent to another machine.

    Raises:
        OSError: A file cannot be read.
        UsageError: The files together are larger than 256 MiB.
    """
    found: dict[str, bytes] = {}
    size = 0
    for path in paths:
        for file in _files(path.resolve()):
            size += file.stat().st_size
            if size > _MOST_BYTES:
                raise UsageError(
                    f"--readable {path}: a cluster is sent at most {_MOST_BYTES >> 20} "
                    "MiB; name only the files that submissions need"
                )
            found[str(file)] = file.read_bytes()
    return ReadableFiles(found, key_of(found))


def unpack(parcel: Parcel, luggage: ReadableFiles, folder: Path) -> Request:
    """Write a parcel's files below a folder of this machine; return the request with the new paths.

    Each subfolder is named by the digest of its files, so a subfolder that exists already is not
    written again.

    Raises:
        OSError: A file cannot be written.
        UnpackError: There are readable files, but this machine has no sandbox. Only a sandbox can
            show the files at the sender's paths.
    """
    asked = parcel.asked
    if luggage.files and bubblewrap.usable() is None:
        raise UnpackError(
            f"--readable needs a sandbox on this worker: {bubblewrap.why_not_usable()}"
        )
    files = {f"submission/{name}": content for name, content in parcel.submission.items()}
    files[f"reference/{asked.problem.name}"] = parcel.problem
    own = folder / parcel.digest
    _write(own, files)
    # Files are numbered here. The sandbox shows them at the paths of the sender's machine.
    numbered = {str(number): content for number, content in enumerate(luggage.files.values())}
    _write(folder / luggage.key, numbered)
    return replace(
        asked,
        submission=own / "submission" / asked.submission.name,
        problem=own / "reference" / asked.problem.name,
        carried={
            place: folder / luggage.key / name
            for place, name in zip(luggage.files, numbered, strict=True)
        },
    )


def _files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
    for here, folders, names in os.walk(path):
        folders.sort()
        yield from (Path(here) / name for name in sorted(names) if (Path(here) / name).is_file())


def key_of(files: Contents) -> str:
    """Return a digest of the names and contents of files."""
    parts = (part for name, content in files.items() for part in (name, content.hex()))
    return digest(parts)


def _write(target: Path, files: Contents) -> None:
    """Write files to a new folder, completely or not at all; leave an existing folder as it is."""
    if target.is_dir():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    # The rename makes the folder appear complete, so a task never reads a part of it.
    with tempfile.TemporaryDirectory(prefix="unpacking-", dir=target.parent) as name:
        made = Path(name) / "made"
        made.mkdir()
        for path, content in files.items():
            (made / path).parent.mkdir(parents=True, exist_ok=True)
            (made / path).write_bytes(content)
        try:
            made.rename(target)
        except OSError:
            # Another thread may have written the same folder first.
            if not target.is_dir():
                raise
