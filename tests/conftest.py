"""Settings shared by all tests."""

from hypothesis import HealthCheck, Phase, settings

# Shrinking a failing ball-arithmetic example can take minutes; the unshrunk example says enough.
settings.register_profile(
    "cutline",
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=(HealthCheck.too_slow,),
    derandomize=True,
)
settings.load_profile("cutline")
