r"""Teachers that share a process, each as if it were alone in it.

**Privacy.** A ballot may depend on its teacher's own records, the public examples and the teacher's seed, and on nothing that
another teacher did: otherwise one record changes two ballots. What a process keeps for everybody (random generators, settings,
warnings) is therefore given to one teacher at a time, at a seed of its own, and put back afterwards. Teachers never share a
process in threads, whatever backend the caller has chosen for joblib. What a library keeps in places of its own cannot be put
back; `cutline.pate.teachers.rehearse` refuses a teacher that shows such a memory on public examples.
"""

from __future__ import annotations

import random
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
from numpy.random import mtrand

_TEACHING = threading.RLock()  # generators, settings and filters are the process's: two threads must not set them both
_TORCH_STARTS_AT = 67280421310721  # torch's own default seed


def seeded_libraries() -> tuple[str, ...]:
    """Return which of the libraries with generators of their own are loaded; `alone` seeds those."""
    return tuple(name for name in ("torch",) if hasattr(sys.modules.get(name), "manual_seed"))


@contextmanager
def alone(seed: int) -> Iterator[None]:
    """Let one teacher run: every generator of the process at its seed, no warnings, and all as before when it has ended.

    Not all randomness has a ``random_state`` that can be found: a splitter in a teacher draws from numpy's global generator,
    as often as there are records. The next teacher would start where that one stopped, so one record would change two ballots,
    and the generator's state after the fit would tell how many records there were. The same goes for numpy's and scikit-learn's
    settings.

    A library that is first loaded inside starts at a seed of its own: see `seeded_libraries`.
    """
    from sklearn import config_context

    with ExitStack() as stack:
        stack.enter_context(_TEACHING)
        stack.enter_context(warnings.catch_warnings())
        stack.enter_context(np.errstate())
        stack.enter_context(config_context())
        stack.enter_context(_python_generator(seed))
        stack.enter_context(_numpy_generator(seed))
        stack.enter_context(_torch_settings())
        stack.enter_context(_torch_generators(seed))
        warnings.simplefilter("ignore")
        yield


@contextmanager
def _python_generator(seed: int) -> Iterator[None]:
    state = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(state)


@contextmanager
def _numpy_generator(seed: int) -> Iterator[None]:
    # The caller may have put another kind of generator in the place of numpy's own; a teacher may too.
    kept, state = mtrand.get_bit_generator(), mtrand.get_state(legacy=False)
    mtrand.set_bit_generator(np.random.MT19937())
    mtrand.seed(seed)
    try:
        yield
    finally:
        mtrand.set_bit_generator(kept)
        mtrand.set_state(state)


@contextmanager
def _torch_generators(seed: int) -> Iterator[None]:
    """Keep torch's generators, of the processor and of CUDA devices, if torch is loaded; ``manual_seed`` seeds them all."""
    if not seeded_libraries():
        try:
            yield
        finally:
            if seeded_libraries():  # how far its first user has come is no one's business
                sys.modules["torch"].manual_seed(_TORCH_STARTS_AT)
        return
    torch: Any = sys.modules["torch"]
    started_at, state = torch.initial_seed(), torch.get_rng_state()
    # To ask a device that nobody has used yet would occupy it, in every worker.
    used = torch.cuda.is_available() and torch.cuda.is_initialized()
    device_states = torch.cuda.get_rng_state_all() if used else []
    torch.manual_seed(seed)
    try:
        yield
    finally:
        torch.manual_seed(started_at)  # for devices that only the teacher used
        torch.set_rng_state(state)
        if used:
            torch.cuda.set_rng_state_all(device_states)


@contextmanager
def _torch_settings() -> Iterator[None]:
    """Give a teacher one of torch's threads and keep its settings, if torch is loaded.

    In several threads sums are added in another order. A worker that loads torch late, because its first teachers had nothing
    to learn, would then vote differently from one that loaded it at once.
    """
    if not seeded_libraries():
        yield
        return
    torch: Any = sys.modules["torch"]
    threads, kind, deterministic = torch.get_num_threads(), torch.get_default_dtype(), _torch_determinism(torch)
    gradients = torch.is_grad_enabled()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.set_default_dtype(kind)
        torch.set_grad_enabled(gradients)
        torch.use_deterministic_algorithms(deterministic[0], warn_only=deterministic[1])


def _torch_determinism(torch: Any) -> tuple[bool, bool]:
    return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()


@contextmanager
def one_core() -> Iterator[None]:
    """Keep teachers from starting threads or processes of their own.

    They are many and small and run side by side: threads inside each would only be in each other's way, and processes get large
    arrays through temporary files. What the caller has set for joblib (threads, a cluster, reports) is not for teachers.
    """
    from joblib import parallel_config
    from threadpoolctl import threadpool_limits

    settings: dict[str, Any] = {"n_jobs": 1, "verbose": 0, "max_nbytes": None, "prefer": None, "require": None}
    with threadpool_limits(limits=1), parallel_config(backend="sequential", **settings):
        yield


@contextmanager
def workers(n_jobs: int | None) -> Iterator[tuple[Any, int]]:
    r"""Give a joblib ``Parallel`` whose jobs run in processes, or one after the other in this thread, and how many run at once.

    Never in threads and never on other computers, whatever ``joblib.parallel_config`` says around: in threads, teachers would
    share the process's generators, and inside joblib's own workers threads are the default. The backend is an instance, because
    a name can be registered anew, and stands for threads where processes are not to be had.

    Worker processes get records through pipes: joblib's habit of writing large arrays to a temporary file for its workers is
    turned off, since that file holds private records and outlives a killed process.
    """
    from joblib import effective_n_jobs, parallel_config
    from joblib.parallel import LokyBackend
    from sklearn.utils.parallel import Parallel

    settings: dict[str, Any] = {"verbose": 0, "max_nbytes": None, "temp_folder": None, "prefer": None, "require": None}
    with _TEACHING, warnings.catch_warnings(), parallel_config(backend=LokyBackend(), n_jobs=n_jobs or 1, **settings):
        warnings.simplefilter("ignore")
        yield Parallel(n_jobs=n_jobs or 1, return_as="generator_unordered", **settings), effective_n_jobs(n_jobs or 1)
