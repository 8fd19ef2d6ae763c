"""Packing of requests, speed plans and builds for another machine, and unpacking there."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.compiler.cache import Cache, Product
from harness.engines.cluster import parcel
from harness.engines.cluster.parcel import (
    pack,
    pack_plan,
    pack_readable,
    unpack,
    unpack_plan,
)
from harness.engines.cluster.software import Software, software
from harness.evaluate import Request
from harness.speed.plan import PlannedSubmission, SpeedPlan
from harness.system.errors import UsageError


def test_contents_are_what_travels(tmp_path: Path) -> None:
    """A packed request contains its files, and unpacking stores them at new paths.

    Other files in the submission's folder are packed only if the submission names them.
    """
    here = tmp_path / "here"
    (here / "part").mkdir(parents=True)
    (here / "mine.py").write_text("'part/near.cuh'")
    (here / "part" / "near.cuh").write_text("near")
    (here / "other.cuh").write_text("other")
    (here / "conv.py").write_text("reference")
    packed = pack(Request(here / "mine.py", here / "conv.py", "simulator", seed=7))
    there = tmp_path / "there"
    asked = unpack(packed, pack_readable(()), there)
    assert asked.submission.read_text() == "'part/near.cuh'"
    assert asked.problem.read_text() == "reference"
    assert (asked.submission.parent / "part" / "near.cuh").read_text() == "near"
    assert not list(there.rglob("other.cuh"))
    assert (asked.seed, asked.title) == (7, "mine on conv")
    # Unpacking finds the same contents in their folder, and other contents get another one.
    assert unpack(packed, pack_readable(()), there).submission == asked.submission
    (here / "part" / "near.cuh").write_text("nearer")
    again = unpack(pack(packed.asked), pack_readable(()), there)
    assert again.submission != asked.submission


def test_plan_travels_with_the_files_of_all_contenders(tmp_path: Path) -> None:
    """A packed speed plan has the files of all submissions to time, and its other fields.

    Two versions of a submission whose files have the same name are unpacked as two files.
    """
    for name in ("new", "old"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "mine.py").write_text(name)
    (tmp_path / "conv.py").write_text("reference")
    paths = {name: tmp_path / name / "mine.py" for name in ("new", "old")}
    request = Request(paths["new"], tmp_path / "conv.py", "cuda", seed=7)
    entries = tuple(PlannedSubmission(name, path, "fp32") for name, path in paths.items())
    plan = SpeedPlan(request, entries, kinds=(), seconds=3.0, width=0.002)
    there = tmp_path / "there"
    found = unpack_plan(pack_plan(plan), lambda each: unpack(each, pack_readable(()), there))
    assert [each.path.read_text() for each in found.entries] == ["new", "old"]
    assert all(each.path.is_relative_to(there) for each in found.entries)
    assert found.request.problem.read_text() == "reference"
    assert found.request.submission == found.entries[0].path
    assert (found.kinds, found.seconds, found.width, found.request.seed) == ((), 3.0, 0.002, 7)


@pytest.mark.usefixtures("sandbox")
def test_what_is_readable_keeps_its_name(tmp_path: Path) -> None:
    """A packed `--readable` file keeps its original path, by which a submission opens it."""
    folder = tmp_path / "far"
    folder.mkdir()
    (folder / "table.txt").write_text("1 2 3")
    for name in ("mine.py", "conv.py"):
        (tmp_path / name).write_text(name)
    request = Request(tmp_path / "mine.py", tmp_path / "conv.py", "simulator", readable=(folder,))
    asked = unpack(pack(request), pack_readable(request.readable), tmp_path / "there")
    assert asked.readable == ()
    ((name, path),) = asked.carried.items()
    assert (name, path.read_text()) == (str(folder / "table.txt"), "1 2 3")


def test_more_than_can_be_sent_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that are too large to be sent are refused in one line, before they are read."""
    monkeypatch.setattr(parcel, "_MOST_BYTES", 8)
    (tmp_path / "table.txt").write_text("123456789")
    with pytest.raises(UsageError, match="a cluster is sent at most 0 MiB; name only the files"):
        pack_readable((tmp_path,))


def test_other_versions_are_told() -> None:
    """The message names each program whose version differs on the other machine.

    A sender without nvcc does not count as different.
    """
    own = Software("0.1.0 (ab)", "2.9.1", "13.0.88")
    assert own.why_other(own) == ""
    assert own.why_other(Software("0.1.0 (ab)", "2.9.1", "")) == ""
    told = own.why_other(Software("0.1.0 (cd)", "2.9.1", "13.0.1"))
    assert told == (
        "the harness is 0.1.0 (ab) there and 0.1.0 (cd) here, nvcc is 13.0.88 there and 13.0.1 "
        "here; install the same on both"
    )
    assert software().why_other(software()) == ""


def test_build_of_another_machine_is_as_an_own_one(tmp_path: Path) -> None:
    """A cache reuses a build that another machine has made and sent, and ignores a damaged copy."""

    def build(folder: Path) -> Product:
        (folder / "module.so").write_bytes(b"made")
        return Product(folder / "module.so")

    made = Cache(tmp_path / "one").get_or_build("key", build)
    files = {path.name: path.read_bytes() for path in made.library.parent.iterdir()}
    other = Cache(tmp_path / "other")
    other.adopt("key", {**files, "module.so": b"damaged"})
    assert not other.get_or_build("key", build).reused
    third = Cache(tmp_path / "third")
    third.adopt("key", files)
    found = third.get_or_build("key", build)
    assert found.reused
    assert found.library.read_bytes() == b"made"
    assert found.seconds == made.seconds
