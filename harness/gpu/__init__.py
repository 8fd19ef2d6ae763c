"""A real GPU through its driver: memory, streams, device times, clocks.

The simulated device is in simulator/. The process that serves either device is in device/.
"""
