"""A service without Spark, as its own tests have it."""

from tests.service.conftest import local, served

__all__ = ["local", "served"]
