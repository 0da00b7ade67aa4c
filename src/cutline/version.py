"""The version of Cutline: written into every entry of a ledger, so it stands below everything that might write it."""

__version__ = "0.1.0"
