"""Whether this machine can compile a model's parts."""

from __future__ import annotations

import os
import shutil

import pytest

COMPILER = pytest.mark.skipif(shutil.which(os.environ.get("CXX", "g++")) is None, reason="there is no C++ compiler")
