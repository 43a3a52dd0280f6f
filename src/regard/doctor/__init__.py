"""Checks that a model's attention is right, and watches what its heads do."""

from regard.doctor.finding import Fact, Finding, Passed, Untested
from regard.doctor.report import Report

__all__ = ["Fact", "Finding", "Passed", "Report", "Untested"]
