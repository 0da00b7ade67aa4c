"""What pytest need not collect here as doctests."""

collect_ignore = [
    "howto/spark.md",  # tests/counting/engines/test_contract.py runs it, where a Spark is at hand
    "conf.py",
    "site_directives.py",
]
