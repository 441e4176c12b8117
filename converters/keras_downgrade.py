"""The config of a Keras 3 model as Keras 2.3.1 and tf_keras take it, with cuDNN layers where they are asked for.

Only what they do not take is changed; every change is said. Nothing that a config names is imported or run. Knows no
container and no arrays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rnnbridge.catalogue import CarriedLayer
from rnnbridge.converters.keras_classes import CONTAINERS, KEYWORDS
from rnnbridge.converters.keras_config import is_keras_own
from rnnbridge.converters.keras_downgrade_facts import (
    ACTIVATIONS,
    HAS_SEED,
    LACKING,
    NO_CUDNN,
    NOT_THERE,
    ONE_FLOAT,
    RENAMED,
    TF_KERAS_ACTIVATIONS,
    TF_KERAS_ALONE,
    TF_KERAS_OBJECTS,
)
from rnnbridge.converters.keras_downgrade_graph import old_graph
from rnnbridge.converters.keras_downgrade_masks import OPERATIONS, without_masks
from rnnbridge.converters.keras_downgrade_objects import bare, old_lambda, old_object
from rnnbridge.converters.keras_masks import mask_differences, masked_on_gpu, past_matters
from rnnbridge.converters.keras_model import Layer
from rnnbridge.converters.keras_rows import activation_spelling
from rnnbridge.errors import Incompatible
from rnnbridge.spec import RNNSpec

Entry = dict[str, Any]
_OPERATION_MODULES = ("keras.src.ops", "keras.ops")  # the modules of what is no layer; an .h5 file says none
_DEFAULT = "it is the default"
_ONLY_TF_KERAS = "tf_keras opens it; Keras 2.3.1 has no {}"


class Downgrade:
    """One pass over a model's config.

    Args:
        specs: layer's name -> the layer, or the cells of a stack, as they are written.
        evidence: why each was read as it was, by the same names.
        cudnn: whether LSTM and GRU become CuDNNLSTM and CuDNNGRU.
        modern: whether the model is one of Keras 3, whose masks are not quite those of Keras 2.
        repeats: whether its Bidirectional gives its last output again past a mask, and not zeros.
    """

    def __init__(
        self,
        specs: Mapping[str, Sequence[RNNSpec]],
        evidence: Mapping[str, Sequence[str]],
        *,
        cudnn: bool,
        modern: bool,
        repeats: bool,
    ) -> None:
        self.specs, self.evidence, self.cudnn, self.modern, self.repeats = specs, evidence, cudnn, modern, repeats
        self.layers: list[CarriedLayer] = []
        self.problems: list[str] = []
        self.changes: list[str] = []
        self.notices: list[str] = []
        self._zeros = False  # whether a Bidirectional says that it gives zeros past a mask

    def model(self, model: Mapping[str, Any], layers: Sequence[Layer]) -> Entry:
        """The whole model.

        Raises:
            Incompatible: layers that Keras 2 has nothing for, with every reason.
        """
        out = self._container(dict(model), layers)
        if not self.problems:  # a graph of which a call is missing says nothing of masks
            out = self._masked(out, model, layers)
        if self.problems:
            raise Incompatible("Keras 2 cannot have this model", self.problems)
        return out

    def _masked(self, out: Entry, model: Mapping[str, Any], layers: Sequence[Layer]) -> Entry:
        """What was made of a model, or what is made of it where it shows that a Bidirectional gives zeros."""
        if self.cudnn:
            self.problems += masked_on_gpu(out)
        if self.modern:
            refused, told = mask_differences(out, repeats=False)
            self.problems, self.notices = self.problems + refused, told
        if self.problems or self.repeats or not past_matters(out):
            return out
        self._zeros, self.layers = True, []
        return self._container(dict(model), layers)

    def _container(self, entry: Entry, layers: Sequence[Layer]) -> Entry:
        config = entry["config"]
        kind = "Model" if entry["class_name"] == "Functional" else str(entry["class_name"])
        if isinstance(config, list):  # a Sequential before Keras 2.2.3
            config = {"name": entry.get("name", "sequential"), "layers": config}
        name = {"name": config.get("name", entry.get("name"))}
        if kind == "Sequential":
            pairs = zip(config["layers"], layers, strict=True)
            return bare(entry, kind, {**name, "layers": [self._layer(dict(one), layer) for one, layer in pairs]})
        by_name = {one.get("name"): layer for one, layer in zip(config["layers"], layers, strict=True)}
        ends = {key: config[key] for key in ("input_layers", "output_layers") if key in config}
        kept = without_masks(config["layers"], list(ends.values()))
        entries = [self._layer(one, by_name[one.get("name")]) for one in kept]
        return bare(entry, kind, {**name, **old_graph({**name, **ends, "layers": entries}, self.problems)})

    def _layer(self, entry: Entry, layer: Layer) -> Entry:
        self.changes = []
        kind = entry["class_name"]
        if kind in CONTAINERS and layer.children:
            return self._container(entry, layer.children)
        if str(entry.get("module")).startswith(_OPERATION_MODULES) or kind in OPERATIONS:
            self.problems.append(
                f"layer {layer.name!r}: {kind} is an operation of Keras 3, and Keras 2 has no layer of it"
            )
        if not is_keras_own(entry) or (kind not in KEYWORDS and layer.recurrent is None):
            kept = "kept and never run here; to load it needs what defines it, a lambda the Python that wrote it"
            self.layers.append(CarriedLayer(layer.name, kind, kind, (kept,)))
            return old_lambda(entry) if kind == "Lambda" and self.modern else entry
        if layer.children:  # a TimeDistributed
            inner = self._layer(dict(entry["config"]["layer"]), layer.children[0])
            self.changes = []
            out = self._plain({**entry, "config": {**entry["config"], "layer": inner}}, layer.name)
        elif layer.recurrent is not None:
            out = self._recurrent(entry, layer)
        else:
            out = self._plain(entry, layer.name)
        self.layers.append(CarriedLayer(layer.name, kind, out["class_name"], tuple(self.changes)))
        return out

    def _recurrent(self, entry: Entry, layer: Layer) -> Entry:
        specs = self.specs.get(layer.name)
        if specs is None:
            self.problems.append(f"layer {layer.name!r}: {layer.recurrent and layer.recurrent.obstacle}")
            return entry
        self.changes += [f"read so because {evidence}" for evidence in self.evidence.get(layer.name, ())]
        if entry["class_name"] != "Bidirectional":
            return self._cell(entry, layer.name, specs)
        config = dict(entry["config"])
        config.pop("backward_layer", None)  # Keras 2 makes it from the forward one, which it equals
        inner = dict(config["layer"])
        zeros = self._zeros and bool(inner["config"].get("return_sequences"))
        inner["config"] = {**inner["config"], "zero_output_for_mask": zeros}
        config["layer"] = self._cell(inner, layer.name, specs)
        return self._plain({**entry, "config": config}, layer.name)

    def _cell(self, entry: Entry, name: str, specs: Sequence[RNNSpec]) -> Entry:
        """A recurrent layer by itself, a RNN's cell, or the cells of a stack."""
        config, kind = dict(entry["config"]), entry["class_name"]
        if kind in ("RNN", "StackedRNNCells"):
            if self.cudnn:
                self.problems.append(f"layer {name!r}: a RNN of cells; the cuDNN layers are LSTM and GRU alone")
            if kind == "RNN":
                config["cell"] = self._cell(dict(config["cell"]), name, specs)
            else:
                pairs = zip(config["cells"], specs, strict=True)
                config["cells"] = [self._cell(dict(cell), name, [spec]) for cell, spec in pairs]
            return self._plain({**entry, "config": config}, name)
        if self.cudnn:
            return self._on_gpu(entry, name)
        return self._plain(self._settings(entry, specs[0]), name)

    def _on_gpu(self, entry: Entry, name: str) -> Entry:
        """A layer that its row has found to be sigmoid, tanh, and reset after."""
        config = {key: value for key, value in entry["config"].items() if key not in NO_CUDNN}
        for key in ("dropout", "recurrent_dropout"):
            if entry["config"].get(key):
                self.changes.append(f"{key}={entry['config'][key]} dropped: cuDNN layers have none; it is for training")
        kind = entry["class_name"].removeprefix("CuDNN")
        self.changes.append(f"{kind} becomes CuDNN{kind}: sigmoid, tanh{', reset after' * (kind == 'GRU')}, biases")
        return {**self._plain({**entry, "class_name": kind, "config": config}, name), "class_name": f"CuDNN{kind}"}

    def _settings(self, entry: Entry, spec: RNNSpec) -> Entry:
        """A cell's settings as the arrays are written, all of them said: the versions' defaults differ."""
        wanted: dict[str, Any] = {"activation": activation_spelling(spec.activations[-1], 2)}
        if spec.cell != "rnn":
            wanted["recurrent_activation"] = activation_spelling(spec.activations[0], 2)
        if spec.cell == "gru":
            wanted["reset_after"] = spec.reset == "after"
        wanted["use_bias"] = spec.bias != "none"
        config = dict(entry["config"])
        kind = entry["class_name"].removeprefix("CuDNN")
        if kind != entry["class_name"]:
            self.changes.append(f"{entry['class_name']} becomes {kind}")
        for key, value in wanted.items():
            if config.get(key) != value:
                self.changes.append(f"{key}={value} set, as the arrays are")
            elif value == "hard_sigmoid":
                self.changes.append(f"{key}=hard_sigmoid kept, with the gates' arrays for Keras 2's slope of 0.2")
            if value in TF_KERAS_ACTIVATIONS:
                self.changes.append(_ONLY_TF_KERAS.format(f"activation {value}"))
        return {**entry, "class_name": kind, "config": {**config, **wanted}}

    def _plain(self, entry: Entry, name: str) -> Entry:
        """A layer or cell by itself: its class, its keywords, and the objects in them."""
        kind, renamed = entry["class_name"], RENAMED.get(entry["class_name"], {})
        if kind in NOT_THERE:
            self.problems.append(f"layer {name!r}: Keras 2 has no {kind}")
        if kind in TF_KERAS_ALONE:
            self.changes.append(_ONLY_TF_KERAS.format(kind))
        config = {renamed.get(key, key): value for key, value in entry["config"].items()}
        self.changes += [f"{key} becomes {new}" for key, new in renamed.items() if key in entry["config"]]
        if kind == "ZeroPadding1D" and config.get("data_format") == "channels_last":
            self.changes.append(f"data_format={config.pop('data_format')!r} dropped: {_DEFAULT}")
        for key in [key for key in config if key in LACKING and not (key == "seed" and kind in HAS_SEED)]:
            self._drop(config, key, kind, name)
        if name not in self.specs:
            self._check_activation(config.get("activation"), kind, name)
        config = {key: old_object(value) for key, value in config.items()}
        self._check_values(config, kind, name)
        return bare(entry, kind, config)

    def _check_values(self, config: Entry, kind: str, name: str) -> None:
        if config.get("interpolation", "nearest") != "nearest":
            self.problems.append(f"layer {name!r}: Keras 2.3.1 interpolates otherwise; nearest is the same in both")
        for value in config.values():
            if isinstance(value, dict) and value.get("class_name") in TF_KERAS_OBJECTS:
                self.changes.append(_ONLY_TF_KERAS.format(value["class_name"]))
        dtype = config.get("dtype")
        if dtype in ONE_FLOAT or (kind == "InputLayer" and "float" not in str(dtype)):
            return
        if self.cudnn and name in self.specs:
            self.problems.append(f"layer {name!r}: its dtype is {dtype}, and the cuDNN layers are written for float32")
        self.changes.append(f"dtype={dtype} kept: tf_keras has it; Keras 2.3.1 has one dtype for all layers")

    def _drop(self, config: Entry, key: str, kind: str, name: str) -> None:
        if key == "zero_output_for_mask" and config[key] and not self.cudnn:
            self.changes.append("zero_output_for_mask=True kept: tf_keras takes it; Keras 2.3.1 does not open the file")
            return
        value, dead = config.pop(key), LACKING[key]
        if dead.values is not None and value not in dead.values:
            self.problems.append(f"layer {name!r}: {kind} has {key}={value!r}, which Keras 2 does not take")
        else:
            self.changes.append(f"{key}={value!r} dropped: {dead.because}")

    def _check_activation(self, said: Any, kind: str, name: str) -> None:
        if said is None or (isinstance(said, str) and said in ACTIVATIONS):
            return
        if isinstance(said, str) and said in TF_KERAS_ACTIVATIONS:
            self.changes.append(_ONLY_TF_KERAS.format(f"activation {said}"))
            return
        self.problems.append(f"layer {name!r}: {kind} with activation {said}, which Keras 2 has not, or has as another")
