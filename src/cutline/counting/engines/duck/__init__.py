r"""Files and tables in memory, counted on a private DuckDB."""
