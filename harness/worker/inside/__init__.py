"""The untrusted side: what runs in the sandbox beside the submission, and imports it.

Nothing here can be relied on; the side that asks, and checks the answers, is worker/.
"""
