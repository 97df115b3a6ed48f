"""Prints the oldest versions of the dependencies that pyproject.toml allows, as pins for pip; not PyTorch's."""

import re
import tomllib

with open("pyproject.toml", "rb") as file:
    declared = tomllib.load(file)["project"]["dependencies"]
for line in declared:
    name, oldest = re.match(r"([\w-]+)>=([\w.]+)", line).groups()
    if name != "torch":
        print(f"{name}=={oldest}")
