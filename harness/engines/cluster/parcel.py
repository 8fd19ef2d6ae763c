"""A request with the contents of every file that it names: another machine has none of them."""

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
"""Files by their names, which may have folders in them."""

_MOST_BYTES = 256 << 20


class UnpackError(ValueError):
    """A parcel cannot be unpacked here; the message says why, in one line."""


@dataclass(frozen=True)
class Luggage:
    """What submissions may read beside their own, which many requests have in common.

    Attributes:
        files: By where they lie on the sender's machine.
        key: Their digest.
    """

    files: Contents
    key: str


@dataclass(frozen=True)
class Parcel:
    """A request for another machine.

    Attributes:
        request: As text; its paths are the sender's.
        submission: The submission's file and the sources beside it that it may read, by where they
            lie in its folder.
        problem: The reference's file.
    """

    request: str
    submission: Contents
    problem: bytes

    @cached_property
    def asked(self) -> Request:
        """The request as the sender has it."""
        return codec.decode(self.request, Request)

    @cached_property
    def digest(self) -> str:
        """Of the contents; what two parcels of the same files have in common."""
        asked = self.asked
        return digest((key_of(self.submission), key_of({asked.problem.name: self.problem})))


def pack(request: Request) -> Parcel:
    """Read what a request names, but for what is readable beside it.

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
    """A plan of what is to be timed, for another machine.

    Attributes:
        plan: As text; its paths are the sender's.
        entries: For each contender, in the plan's order, a request for its file.
    """

    plan: str
    entries: tuple[Parcel, ...]


def pack_plan(plan: SpeedPlan) -> TimingParcel:
    """Read what a plan names; raises as `pack` does."""
    requests = (replace(plan.request, submission=entry.path) for entry in plan.entries)
    bare = replace(plan, request=_bare(plan.request))
    return TimingParcel(codec.encode(bare), tuple(map(pack, requests)))


def _bare(request: Request) -> Request:
    """Without the places that are of the sender's machine alone."""
    return replace(request, cache=Path(), readable=())


def unpack_plan(parcel: TimingParcel, unpacked: Callable[[Parcel], Request]) -> SpeedPlan:
    """The plan with paths of this machine, where `unpacked` writes each parcel."""
    plan = codec.decode(parcel.plan, SpeedPlan)
    requests = [unpacked(each) for each in parcel.entries]
    entries = tuple(
        replace(entry, path=request.submission)
        for entry, request in zip(plan.entries, requests, strict=True)
    )
    return replace(plan, request=requests[0], entries=entries)


def pack_readable(paths: Iterable[Path]) -> Luggage:
    """Read what is readable to submissions.

    Raises:
        OSError: A file cannot be read.
        UsageError: It is more than is sent to another machine.
    """
    found: dict[str, bytes] = {}
    size = 0
    for path in paths:
        for file in _files(path.resolve()):
            size += file.stat().st_size
            if size > _MOST_BYTES:
                raise UsageError(
                    f"--readable {path}: a cluster is sent at most {_MOST_BYTES >> 20} MiB; "
                    "name what is needed of it"
                )
            found[str(file)] = file.read_bytes()
    return Luggage(found, key_of(found))


def unpack(parcel: Parcel, luggage: Luggage, folder: Path) -> Request:
    """Write everything below a folder of this machine; answers the request with its new paths.

    What was written before is taken as it is: its name is its digest.

    Raises:
        OSError: It cannot be written.
        UnpackError: Only a sandbox could show it where it has to be, and there is none.
    """
    asked = parcel.asked
    if luggage.files and bubblewrap.usable() is None:
        raise UnpackError(f"--readable needs a sandbox here: {bubblewrap.why_not_usable()}")
    files = {f"submission/{name}": content for name, content in parcel.submission.items()}
    files[f"reference/{asked.problem.name}"] = parcel.problem
    own = folder / parcel.digest
    _write(own, files)
    # Their names in this folder say nothing: a sandbox shows them where they lie at the sender's.
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
    """The digest of files, names and contents."""
    parts = (part for name, content in files.items() for part in (name, content.hex()))
    return digest(parts)


def _write(target: Path, files: Contents) -> None:
    """A folder with files, whole or not at all."""
    if target.is_dir():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="unpacking-", dir=target.parent) as name:
        made = Path(name) / "made"
        made.mkdir()
        for path, content in files.items():
            (made / path).parent.mkdir(parents=True, exist_ok=True)
            (made / path).write_bytes(content)
        try:
            made.rename(target)
        except OSError:
            # Another thread may have done the same.
            if not target.is_dir():
                raise
