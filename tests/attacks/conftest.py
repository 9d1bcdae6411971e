"""A service without Spark, and the same behind a real port on loopback."""

from tests.service.conftest import local, served

__all__ = ["local", "served"]
