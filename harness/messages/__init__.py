"""Messages between the harness's processes: frames with deadlines, digests, and their kinds.

The processes that send and handle them are in worker/ and device/. Nothing is run or judged here.
"""
