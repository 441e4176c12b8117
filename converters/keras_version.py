"""What a version of Keras means: its major number, and the defaults of that time. Knows no file and no array."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from rnnbridge.errors import ArgumentError


class Default(NamedTuple):
    """A value that a file does not say, and why it is taken."""

    value: str
    because: str


MAJORS = (1, 2, 3)
READ = "versions 1, 2 and 3 are read, given as 2.1.5, 2.2.4-tf or 3"
_NEWEST_2 = (2, 15)


@dataclass(frozen=True)
class Version:
    """The version of Keras that wrote a file, as the file says it: "2.1.5", "2.2.4-tf", "3.15.1"; "" if it does not."""

    text: str

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        """(2, 2, 4) of "2.2.4-tf". A bare "2", as a user may say it, is the newest: tf_keras."""
        found = re.match(r"\d+(?:\.\d+){0,2}", self.text)
        numbers = tuple(int(number) for number in found[0].split(".")) if found else ()
        return _NEWEST_2 if numbers == (2,) else numbers

    @property
    def major(self) -> int:
        """1, 2 or 3; 3 where the file does not say."""
        return self.numbers[0] if self.numbers else 3

    @property
    def is_read(self) -> bool:
        """Whether what it writes is known here; a file that says no version is no obstacle."""
        return not self.text or (bool(self.numbers) and self.major in MAJORS)

    @property
    def is_tensorflow(self) -> bool:
        """Whether tf.keras wrote it: its versions end in -tf up to 2.3, and multi-backend Keras 2 ends at 2.3.1."""
        return "tf" in self.text or (self.major == 2 and self.numbers[:2] >= (2, 4))

    def __str__(self) -> str:
        return f"Keras {self.text}" if self.text else "an unknown version of Keras"

    def recurrent_activation(self) -> Default:
        """Of LSTM and GRU; the cuDNN layers are sigmoid in every version."""
        if self.is_tensorflow and self.numbers < (2, 3):
            return Default(
                "hard_sigmoid",
                f"{self}; the default of tf.keras in TensorFlow 1; 2.0 and 2.1, of the same version, had sigmoid",
            )
        if self.numbers < (2, 3) and self.numbers:
            return Default("hard_sigmoid", f"{self}; the default before Keras 2.3")
        return Default("sigmoid", f"{self}; the default since Keras 2.3")

    def reset_after(self) -> Default:
        """Of a GRU."""
        if self.major >= 3 or (self.is_tensorflow and self.numbers >= (2, 3)):
            return Default("true", f"{self}; the default of Keras 3 and of tf.keras in TensorFlow 2")
        return Default("false", f"{self}; the default of multi-backend Keras and of tf.keras in TensorFlow 1")

    def bidirectional_padding(self) -> str:
        """What Bidirectional puts past a length: tf.keras and Keras 3 set zero_output_for_mask in it."""
        return "zero" if self.major >= 3 or self.is_tensorflow else "repeat"


def asked_version(text: str) -> Version:
    """The version that the user sets.

    Raises:
        ArgumentError: it is none that is read, or no version at all.
    """
    version = Version(text)
    if not text or not version.is_read:
        raise ArgumentError(f"setting keras_version={text!r}; {READ}")
    return version
