"""The farm: a distributed job-queue evaluation farm for AI agents."""

__version__ = "0.1.0"
