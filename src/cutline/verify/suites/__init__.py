"""The checks of each mechanism, one file each."""
