"""What tests let a sandbox do: a module of its own, for the process imports all that stands beside it."""

import os
import time
from multiprocessing import Process
from pathlib import Path

from models import Fault, InvalidRequest
from models.errors import CorruptArtifact


def die(number: int) -> None:
    os.kill(os.getpid(), number)
    time.sleep(10)


def refuse(kind: str) -> None:
    if kind == "ours":
        raise InvalidRequest.from_faults(Fault(("items", 3, "a"), "is missing"), Fault(("size",), "is -1"))
    if kind == "corrupt":
        raise CorruptArtifact("the model is not one of 3 columns")
    raise Odd(1, 2)


class Odd(Exception):
    """An error that cannot be made again from what it was given."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__("odd")


def sleep_long(begun: Path) -> None:
    begun.touch()
    time.sleep(1000)


def start_another() -> None:
    Process(target=os.getpid).start()
