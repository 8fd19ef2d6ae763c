"""What the harness's processes send each other: framed messages with deadlines, digests, kinds.

Who sends what, and what becomes of it, is in worker/ and device/; here nothing is run or judged.
"""
