"""The data folder and the samples, as the tests of the training have them."""

from tests.training.conftest import data, samples

__all__ = ["data", "samples"]
