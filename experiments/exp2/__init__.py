"""EXP2 of the paper: Covid-19 cases by state, ten days under one budget, and one cliff among 15,000 bins."""
