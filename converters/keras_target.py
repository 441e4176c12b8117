"""Which Keras a file is written for, and in which container. Knows suffixes, settings and versions; writes nothing."""

from __future__ import annotations

from dataclasses import dataclass

from rnnbridge.catalogue import WriteOptions
from rnnbridge.converters.keras_rows import LAYER_ROWS
from rnnbridge.converters.keras_source import Carried
from rnnbridge.converters.keras_version import Version, asked_version
from rnnbridge.errors import Incompatible
from rnnbridge.weights import Bundle

CLASSED, ARCHIVE = ".weights.h5", ".keras"
_VERSIONS = {2: "2.15.0", 3: "3.0.0"}  # what a file says that comes from elsewhere; Keras takes no version for Keras 1
_NO_MODEL = (
    "a .keras archive holds a whole model with its config, and {}: write .weights.h5 (Keras 3) or .h5 (tf_keras, "
    "Keras 2 and 3) and load it into your model with model.load_weights"
)


@dataclass(frozen=True)
class Target:
    """What is to be written.

    Args:
        version: of the Keras it is for: it decides which hard sigmoid a name means.
        classed: whether arrays lie in groups named by class, as Keras 3 has them.
        archive: whether these and the config are put into a `.keras` archive.
        whole: whether every layer of the source's file is carried.
        model: whether the model's config is carried too.
        cudnn: whether it is for Keras 2's layers for GPUs.
    """

    version: Version
    classed: bool
    archive: bool
    whole: bool
    model: bool
    cudnn: bool = False
    notices: tuple[str, ...] = ()


def target_of(bundle: Bundle, options: WriteOptions) -> Target:
    """What the suffix, the settings and the source make of it.

    Raises:
        Incompatible: an archive without a model to put into it.
    """
    carried = bundle.carried if isinstance(bundle.carried, Carried) else None
    archive, classed = options.suffix == ARCHIVE, options.suffix in (ARCHIVE, CLASSED)
    asked = options.settings.get("keras_version")
    whole, notices = _whole(bundle, carried, classed)
    has_config = whole and carried is not None and carried.file.config is not None
    if archive and not has_config:
        why = (
            "the source has none"
            if carried is None or carried.file.config is None
            else "only some layers are asked for"
        )
        raise Incompatible("a .keras file is not written", [_NO_MODEL.format(why)])
    upgraded = has_config and (asked is None or asked_version(asked).major >= 3)
    version = Version(_VERSIONS[3]) if classed or upgraded else _version(bundle, asked)
    return Target(version, classed, archive, whole, archive or (upgraded and not classed), notices=notices)


def old_target_of(bundle: Bundle, *, cudnn: bool) -> Target:
    """A file for Keras 2: a whole model where the source is one."""
    carried = bundle.carried if isinstance(bundle.carried, Carried) else None
    whole, notices = _whole(bundle, carried, False)
    has_config = whole and carried is not None and carried.file.config is not None
    return Target(Version(_VERSIONS[2]), False, False, whole, has_config, cudnn, notices)


def _whole(bundle: Bundle, carried: Carried | None, classed: bool) -> tuple[bool, tuple[str, ...]]:
    if carried is None:
        return False, ()
    if carried.found.keys() != bundle.layers.keys():
        return False, ("only some of the file's layers were asked for, so its other arrays are left out",)
    if carried.file.model is None and carried.is_layered == classed:
        return False, ("the source does not say its layers' classes, so only the recurrent layers are written",)
    return True, ()


def _version(bundle: Bundle, asked: str | None) -> Version:
    said = asked_version(asked) if asked is not None else _said_by_the_source(bundle)
    if said is not None:
        return said if said.major >= 2 and said.text else Version(_VERSIONS[max(said.major, 2)])
    only_3 = {str(one) for slot in LAYER_ROWS[3][0].activations for one in slot} - set(LAYER_ROWS[2][0].activations[0])
    has = {str(one) for weights in bundle.layers.values() for one in weights.spec.activations}
    return Version(_VERSIONS[3 if has & only_3 else 2])


def _said_by_the_source(bundle: Bundle) -> Version | None:
    """The version of the Keras file that a bundle was read from, if there was one, and one that is read."""
    found = bundle.carried.file.version if isinstance(bundle.carried, Carried) else None
    return found if found is not None and found.is_read else None
