r"""Privacy curves: what one step costs at every Rényi order, one file a curve."""
