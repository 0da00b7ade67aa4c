r"""Data made up for demonstrations and, later, the experiments of the paper."""
