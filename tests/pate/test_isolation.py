r"""What a process keeps for everybody is each teacher's own, and as before afterwards.

A module that behaves like torch as far as its generators go stands in for it: torch is large, and not a dependency.
"""

import os
import random
import subprocess
import sys
import textwrap
import threading
import types
import warnings

import numpy as np
import pytest
import sklearn
from joblib import Parallel, delayed, parallel_config
from joblib.parallel import BACKENDS, ThreadingBackend
from sklearn.utils.parallel import delayed as configured

from cutline.pate.isolation import alone, one_core, seeded_libraries, workers

TORCH = """
import random
_cpu, _seed = random.Random(67280421310721), 67280421310721
def initial_seed(): return _seed
def get_rng_state(): return _cpu.getstate()
def set_rng_state(state): _cpu.setstate(state)
def rand(): return _cpu.random()
_settings = {"num_threads": 4, "default_dtype": "float32", "grad_enabled": True}
def get_num_threads(): return _settings["num_threads"]
def set_num_threads(threads): _settings["num_threads"] = threads
def get_default_dtype(): return _settings["default_dtype"]
def set_default_dtype(dtype): _settings["default_dtype"] = dtype
def is_grad_enabled(): return _settings["grad_enabled"]
def set_grad_enabled(enabled): _settings["grad_enabled"] = enabled
def are_deterministic_algorithms_enabled(): return _settings.get("deterministic", False)
def is_deterministic_algorithms_warn_only_enabled(): return _settings.get("warn_only", False)
def use_deterministic_algorithms(mode, *, warn_only=False): _settings.update(deterministic=mode, warn_only=warn_only)
def manual_seed(seed):
    global _seed
    _seed = seed
    _cpu.seed(seed)
    cuda._seed_all(seed)
class cuda:
    _devices, _next, available = None, 67280421310721, True
    @classmethod
    def _seed_all(cls, seed):  # as torch: at once, or when a device is first used
        cls._next = seed
        for device in cls._devices or []: device.seed(seed)
    @classmethod
    def is_available(cls): return cls.available
    @classmethod
    def is_initialized(cls): return cls._devices is not None
    @classmethod
    def rand(cls):
        if cls._devices is None: cls._devices = [random.Random(cls._next), random.Random(cls._next)]
        return [device.random() for device in cls._devices]
    @classmethod
    def get_rng_state_all(cls): return [device.getstate() for device in cls._devices]
    @classmethod
    def set_rng_state_all(cls, states):
        for device, state in zip(cls._devices, states): device.setstate(state)
"""


def load_torch():
    module = types.ModuleType("torch")
    exec(TORCH, module.__dict__)
    return module


@pytest.fixture
def torch(monkeypatch):
    module = load_torch()
    monkeypatch.setitem(sys.modules, "torch", module)
    return module


def test_every_generator_starts_at_the_seed_and_goes_back(torch):
    def draw():
        return random.random(), np.random.random(), np.random.standard_normal(), torch.rand()  # noqa: NPY002

    def seed(value):
        random.seed(value)
        np.random.seed(value)  # noqa: NPY002
        torch.manual_seed(value)
        draw()

    with alone(5):
        inside = draw()
    seed(1)
    expected = draw()
    seed(1)
    with alone(5):
        assert draw() == inside
        draw()
    assert draw() == expected
    with alone(6):
        assert not set(draw()) & set(inside)


def test_a_generator_that_the_caller_put_in_the_place_of_numpys_comes_back():
    own, numpys = np.random.PCG64(1), np.random.get_bit_generator()
    np.random.set_bit_generator(own)
    try:
        with alone(5):
            inside = np.random.random()  # noqa: NPY002
            np.random.set_bit_generator(np.random.SFC64(2))
        assert np.random.get_bit_generator() is own
        assert own.state == np.random.PCG64(1).state
    finally:
        np.random.set_bit_generator(numpys)
    with alone(5):
        assert np.random.random() == inside  # noqa: NPY002


@pytest.mark.parametrize("used", [True, False])
def test_devices_go_back_even_if_the_teacher_was_the_first_to_use_them(torch, used):
    torch.manual_seed(3)
    if used:
        torch.cuda.rand()
    with alone(5):
        torch.cuda.rand()
    after = torch.cuda.rand()
    torch.manual_seed(3)
    if used:
        torch.cuda.rand()
    assert torch.cuda.rand() == after
    torch.cuda.available = False
    with alone(5):
        assert torch.cuda.is_available() is False


def test_a_library_that_is_loaded_inside_keeps_no_trace(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert seeded_libraries() == ()
    module = load_torch()
    untouched = load_torch().rand()
    with alone(5):
        monkeypatch.setitem(sys.modules, "torch", module)
        module.rand()
    assert seeded_libraries() == ("torch",)
    assert module.rand() == untouched


def test_settings_and_filters_go_back():
    filters = list(warnings.filters)
    settings, errors = sklearn.get_config(), np.geterr()
    with alone(5):
        warnings.simplefilter("error")
        sklearn.set_config(assume_finite=True)
        np.seterr(all="raise")
    assert (list(warnings.filters), sklearn.get_config(), np.geterr()) == (filters, settings, errors)


def test_torch_has_one_thread_and_its_settings_go_back(torch):
    with alone(5):
        assert torch.get_num_threads() == 1
        torch.set_default_dtype("float64")
        torch.set_grad_enabled(False)
        torch.use_deterministic_algorithms(True, warn_only=True)
    assert (torch.get_num_threads(), torch.get_default_dtype(), torch.is_grad_enabled()) == (4, "float32", True)
    assert not torch.are_deterministic_algorithms_enabled()
    assert not torch.is_deterministic_algorithms_warn_only_enabled()


def where(_):
    return threading.get_ident()


class Threads(ThreadingBackend):
    """A backend that somebody registered, as dask and ray do."""


@pytest.mark.parametrize("settings", [{"backend": "threading"}, {"backend": "elsewhere"}, {"require": "sharedmem"}])
def test_no_setting_of_the_callers_puts_teachers_in_threads(settings, monkeypatch):
    monkeypatch.setitem(BACKENDS, "elsewhere", Threads)
    with parallel_config(n_jobs=2, **settings), workers(None) as (run, count):
        assert count == 1
        assert set(run(configured(where)(i) for i in range(8))) == {threading.get_ident()}


def test_what_teachers_run_in_parallel_runs_in_their_own_thread():
    with parallel_config(backend="threading", n_jobs=2), one_core():
        assert set(Parallel(n_jobs=2)(delayed(where)(i) for i in range(8))) == {threading.get_ident()}


def run_script(folder, script, **environment):
    (folder / "torch.py").write_text(TORCH)
    (folder / "script.py").write_text(textwrap.dedent(script))
    paths = os.pathsep.join([str(folder), *sys.path])
    ran = subprocess.run(
        [sys.executable, "script.py"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": paths} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.split()


NET = """
import sys
import numpy as np
from joblib import parallel_config
from sklearn.base import BaseEstimator, ClassifierMixin
from cutline.verify.teachers import Table, breaches, cast_ballots

class Net(ClassifierMixin, BaseEstimator):
    "Loads torch only when it learns, and draws from both kinds of its generators, once a record."
    def fit(self, X, y):
        import torch
        self.drawn_ = [torch.rand() + torch.cuda.rand()[1] for _ in range(len(X) + 30)][-30:]
        return self
    def predict(self, X):
        return (np.resize(self.drawn_, len(X)) < 1).astype(int)

features = np.random.default_rng(0).normal(size=(60, 3))
table = Table(features=features, labels=(features[:, :1] > 0).astype(int))
public = features[:30]
"""


@pytest.mark.slow
def test_torch_teachers_change_one_ballot_here_and_in_workers(tmp_path):
    script = (
        NET
        + """
first = cast_ballots(Net(), table, public, teachers=5)  # torch is loaded by the first teacher
assert "torch" in sys.modules
print((first != cast_ballots(Net(), table, public, teachers=5)).sum())
print(len(breaches(Net(), table, public, places=(0, 33), teachers=5)))
for backend in ("loky", "threading", "multiprocessing"):
    with parallel_config(backend=backend):
        print((first != cast_ballots(Net(), table, public, teachers=5, n_jobs=2)).sum())
"""
    )
    assert run_script(tmp_path, script) == ["0"] * 5


@pytest.mark.slow
def test_where_there_are_no_processes_teachers_take_turns(tmp_path):
    script = (
        NET
        + """
import threading
from cutline.pate.isolation import workers
with workers(4) as (run, count):
    print(count)
print((cast_ballots(Net(), table, public, teachers=5, n_jobs=4) != cast_ballots(Net(), table, public, teachers=5)).sum())
"""
    )
    assert run_script(tmp_path, script, JOBLIB_MULTIPROCESSING="0") == ["1", "0"]
