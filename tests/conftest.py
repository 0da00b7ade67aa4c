"""Settings shared by all tests."""

import pytest
from hypothesis import HealthCheck, Phase, settings
from xdist.scheduler import LoadScopeScheduling

# Shrinking a failing ball-arithmetic example can take minutes; the unshrunk example says enough.
settings.register_profile(
    "cutline",
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=(HealthCheck.too_slow,),
    derandomize=True,
)
settings.load_profile("cutline")


class OneSpark(LoadScopeScheduling):
    """Give tests out one by one, but all that need Spark, or the site, to one worker: they are dear to make twice."""

    def _split_scope(self, nodeid):
        for dear in ("docs/test_site", "docs/test_schemas"):
            if dear in nodeid:
                return dear
        return "spark" if "engines/test_contract" in nodeid and "spark" in nodeid else nodeid


def pytest_xdist_make_scheduler(config, log):  # marks for xdist's own groups are lost on pytest 9.2
    return OneSpark(config, log)


def pytest_collection_modifyitems(items):
    for item in items:  # starting Spark alone takes longer than most rooms
        if "spark" in item.nodeid:
            item.add_marker(pytest.mark.slow)
