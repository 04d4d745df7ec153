"""When Python looks for garbage: not among what a process makes once and keeps."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def frozen_heap() -> Iterator[None]:
    """Look for no garbage while what stays is made, and never again in what was made, the little garbage among it too.

    While ten thousand plans are loaded all of them would be gone through again and again, for a fifth of the time; and
    each time later, while a look-up waits.
    """
    gc.collect()
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        gc.enable()
