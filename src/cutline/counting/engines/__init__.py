r"""The engines that count logs, one for each kind of source; each gives :class:`cutline.counting.Votes`."""
