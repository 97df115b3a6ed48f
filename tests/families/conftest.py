"""Stand-ins for what is not installed, results of self-tests in a folder of their own, and how laws are run."""

from collections.abc import Iterator

import pytest

from tests.families import standins
from tests.laws.conftest import law

__all__ = ["law"]


@pytest.fixture(scope="package", autouse=True)
def _stand_ins(tmp_path_factory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        standins.install(patch)
        yield
