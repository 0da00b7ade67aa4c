r"""The engines that count: DuckDB for files and frames, Spark and Ibis where the rows are."""
