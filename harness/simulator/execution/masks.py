"""Checks of the masks of warp-level instructions such as `__shfl_sync`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from harness.finding import DeviceCheck
from harness.simulator.execution.warp_sync import WaitingForLanes
from harness.simulator.hardware.team import Array, Lanes, Team
from harness.simulator.lowering.program import WarpSync

if TYPE_CHECKING:
    from harness.simulator.execution.faults import Faults


class MaskChecks:
    """Checks of the masks of warp-level instructions; wrong masks become findings.

    One object serves one chunk (blocks that are simulated together).
    """

    def __init__(self, team: Team, faults: Faults) -> None:
        self._team = team
        self._faults = faults

    def arrived(self, sync: WarpSync, lanes: Lanes, masks: Array) -> None:
        """Check the masks of threads that have arrived at a warp-level instruction.

        A mask must name the thread's own lane. It must not name lanes that do not exist: the last
        warp of a block may have fewer than 32 lanes.

        Args:
            sync: The instruction.
            lanes: The threads that have arrived, as a boolean array over the simulated threads.
            masks: The instruction's mask operand for each simulated thread.
        """
        own = masks >> self._team.lane_id.astype(np.uint32) & np.uint32(1)
        what = "executed by a lane that is not in its own mask"
        self._note(sync, lanes & (own == 0), masks, what)
        # A mask may name lanes that have ended; only the named lanes that live must take part.
        existing = self._team.mask_of_warp(None)
        missing = (masks & ~existing) != 0
        self._note(sync, lanes & missing, masks, "names lanes that the block does not have")

    def gave_up(self, waiting: WaitingForLanes) -> None:
        """Report threads that waited at a warp-level instruction for lanes that never arrive."""
        what = "waits for lanes that never arrive"
        self._note(waiting.sync, waiting.lanes, waiting.masks, what)

    def took_undefined(self) -> None:
        """Report the values that shuffles and similar instructions read from inactive lanes.

        A lane is inactive if it has ended or is not in the mask. The findings are warnings, because
        a correct kernel may ignore such a value.
        """
        team = self._team
        for (name, location), found in team.undefined.items():
            message = (
                f"{name}: takes an undefined value from lane {found.source}, which has ended or is "
                "not in the mask"
            )
            kind: tuple[DeviceCheck, str] = "synccheck", "undefined value"
            place = found.lane, team.first_block, found.count
            self._faults.note(kind, message, location, *place, severity="warning")
        team.undefined.clear()

    def _note(self, sync: WarpSync, wrong: Lanes, masks: Array, what: str) -> None:
        if not wrong.any():
            return
        lane = int(np.argmax(wrong))
        message = f"{sync.name}: mask 0x{int(masks[lane]):08x} {what}"
        count = int(np.count_nonzero(wrong))
        first_block = self._team.first_block
        self._faults.note(("synccheck", what), message, sync.location, lane, first_block, count)
