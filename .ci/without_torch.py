"""Prints the dependencies without PyTorch and what needs it, and what the tests of units need beside them."""

import re
import tomllib

with open("pyproject.toml", "rb") as file:
    project = tomllib.load(file)["project"]
NEED_TORCH = {"torch", "accelerate"}
FOR_TESTS = {"pytest", "pytest-xdist", "pytest-timeout", "hypothesis"}
dev = project["optional-dependencies"]["dev"]
wanted = [line for line in project["dependencies"] if re.match(r"[\w-]+", line)[0] not in NEED_TORCH]
wanted += [line for line in dev if re.match(r"[\w-]+", line)[0] in FOR_TESTS]
print("\n".join(wanted))
