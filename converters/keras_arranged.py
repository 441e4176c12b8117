"""Where Keras 3 keeps the arrays of a class that is not in the table: Keras itself is asked, where it is installed.

The upgraded model is opened by Keras in safe mode, so that no code of the file runs, and its weights are saved.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from rnnbridge.errors import Incompatible
from rnnbridge.files.hdf5 import Group, read_hdf5, write_hdf5


def arranged(root: Group, refused: Incompatible) -> Group:
    """The weights of a whole model as Keras 3 lays them out.

    Args:
        root: the tree of the model's `.h5` file, upgraded.
        refused: why it cannot be written without Keras.

    Raises:
        Incompatible: Keras 3 is not installed, or does not open the model.
    """
    try:
        import keras
    except ImportError:
        raise _because(
            refused, "with Keras 3 installed (pip install 'rnnbridge[keras]') classes of its own are"
        ) from None
    with TemporaryDirectory(prefix="rnnbridge-") as folder:
        model, weights = Path(folder) / "model.h5", Path(folder) / "model.weights.h5"
        write_hdf5(root, model)
        try:
            keras.models.load_model(model, compile=False, safe_mode=True).save_weights(weights)
        except Exception as error:
            raise _because(refused, f"Keras {keras.__version__} does not open it either: {error}") from error
        return read_hdf5(weights, str(weights))


def _because(refused: Incompatible, more: str) -> Incompatible:
    return Incompatible("this model cannot be put into a .keras archive", [*refused.reasons, more])
