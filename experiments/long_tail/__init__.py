"""The study ``long-tail``: every mechanism that is told k, and two noisy thresholds, on logs with long tails."""
