"""How a GPU is doing: clocks, power, temperature, and whether it is being held back."""

from __future__ import annotations

from dataclasses import dataclass

import pynvml
import torch


@dataclass(frozen=True)
class State:
    """One look at a GPU.

    Attributes:
        clock_mhz: Of the multiprocessors.
        power_watts: Drawn now.
        temperature_celsius: Of the chip.
        is_throttled: Whether heat or the power supply slow it down. The ordinary power limit does
            not count: heavy kernels reach it, and it hits all contenders alike.
    """

    clock_mhz: float
    power_watts: float
    temperature_celsius: float
    is_throttled: bool


_THROTTLING = (
    pynvml.nvmlClocksEventReasonSwThermalSlowdown
    | pynvml.nvmlClocksEventReasonHwSlowdown
    | pynvml.nvmlClocksEventReasonHwThermalSlowdown
    | pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown
)


class Monitor:
    """Looks at the GPU that torch uses. Use as a context manager."""

    def __enter__(self) -> Monitor:
        pynvml.nvmlInit()
        uuid = f"GPU-{torch.cuda.get_device_properties(torch.cuda.current_device()).uuid}"
        self._gpu = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        return self

    def __exit__(self, *_: object) -> None:
        pynvml.nvmlShutdown()

    def driver(self) -> str:
        """The driver's version."""
        return str(pynvml.nvmlSystemGetDriverVersion())

    def state(self) -> State:
        """Look."""
        reasons = pynvml.nvmlDeviceGetCurrentClocksEventReasons(self._gpu)
        return State(
            clock_mhz=float(pynvml.nvmlDeviceGetClockInfo(self._gpu, pynvml.NVML_CLOCK_SM)),
            power_watts=pynvml.nvmlDeviceGetPowerUsage(self._gpu) / 1000,
            temperature_celsius=float(
                pynvml.nvmlDeviceGetTemperature(self._gpu, pynvml.NVML_TEMPERATURE_GPU)
            ),
            is_throttled=bool(reasons & _THROTTLING),
        )


def describe_gpu() -> dict[str, str | float]:
    """The GPU that torch uses, and what times on it depend on."""
    with Monitor() as monitor:
        state = monitor.state()
        return {
            "name": torch.cuda.get_device_name(),
            "driver": monitor.driver(),
            "cuda": torch.version.cuda or "",
            "torch": torch.__version__,
            "cudnn": str(torch.backends.cudnn.version()),  # type: ignore[no-untyped-call]
            "clock_mhz": state.clock_mhz,
        }
