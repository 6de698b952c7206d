"""Tests, as a package: `tests.compat.provision` and the like are imported by this name."""
