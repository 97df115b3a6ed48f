"""What a caption costs on this machine: the benchmark, the start of the command, and models of full size.

Nothing heavy is imported here; `doctor --time` measures how long imports take.
"""
