"""Random attacks on every promise that Cutline makes: `python -m fuzz --minutes 20`; outside the package, like the tests."""
