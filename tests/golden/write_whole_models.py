"""Golden files of whole models, by Keras 2.3.1 (Python 3.7) or tf_keras (Python 3.11), whichever is there.

Beside each file its `.model.npz`: `x0`, `x1` ... for the inputs in the model's order, `y0`, `y1` ... for what the
producer's own `load_model` of the file answers, `again0` ... for the second batch of a model that keeps its state.
"""

import os

import numpy as np
import tensorflow as tf
import whole_models
from recording import Folder, draw_weights, rng_for, same_weights

OLD = tf.__version__.startswith("1.")
if OLD:
    import keras
    from write_keras2 import cpu_gru, cpu_lstm, fresh_session
else:
    import tf_keras as keras
PRODUCER = ("keras-" if OLD else "tf_keras-") + keras.__version__
OWN = "the producer's own load_model of the file"
FROM_CUDNN = (
    "Keras 2.3.1 loads this file's weights into the same topology of LSTM(recurrent_activation='sigmoid') and "
    "GRU(reset_after=True), converting the cuDNN arrays itself; the cuDNN layers never ran"
)
FOLDER = Folder(
    os.path.join("models", PRODUCER),
    "write_whole_models.py",
    "python3.%d tests/golden/write_whole_models.py" % (7 if OLD else 11),
    {"keras" if OLD else "tf_keras": keras.__version__, "tensorflow": tf.__version__},
    "Written on a CPU.",
)


def write(build, what, suffixes=(".h5",), prepare=lambda model: None):
    start()
    model = build(keras)
    draw_weights(model, rng_for(build.__name__))
    prepare(model)
    paths = [FOLDER.file(build.__name__ + suffix) for suffix in suffixes]
    for path in paths:
        model.save(path)
    opened = [load(path) for path in paths]
    for one in opened[1:]:
        same_weights(opened[0], one)
    record(build.__name__, opened[0])
    say(build, suffixes, what, OWN)


def write_gpu(build, what):
    start()
    gpu = build(keras, keras.layers.CuDNNLSTM, keras.layers.CuDNNGRU)
    draw_weights(gpu, rng_for(build.__name__))
    gpu.save(FOLDER.file(build.__name__ + ".h5"))
    start()
    judge = build(keras, cpu_lstm, cpu_gru)
    judge.load_weights(FOLDER.file(build.__name__ + ".h5"))
    record(build.__name__, judge)
    say(build, (".h5",), what, FROM_CUDNN)


def start():
    fresh_session() if OLD else keras.backend.clear_session()


def load(path):
    return keras.models.load_model(path) if OLD else keras.models.load_model(path, safe_mode=False)


def record(stem, model):
    rng = rng_for(stem + " x")
    given = [values(one, rng) for one in model.inputs]
    arrays = {"x%d" % k: value for k, value in enumerate(given)}
    for what in ("y", "again") if any(getattr(layer, "stateful", False) for layer in model.layers) else ("y",):
        answer = model.predict_on_batch(given if len(given) > 1 else given[0])
        answer = answer if isinstance(answer, (list, tuple)) else [answer]
        arrays.update(("%s%d" % (what, k), np.asarray(one)) for k, one in enumerate(answer))
    assert all(np.isfinite(one).all() for one in arrays.values())
    np.savez_compressed(FOLDER.file(stem + ".model.npz"), **arrays)


def values(tensor, rng):
    """Three of what an input takes: tokens with padding at the end, or numbers with masked steps there."""
    shape = (3,) + tuple(int(n) for n in tensor.shape[1:])
    if is_tokens(tensor):
        given = rng.randint(1, 11, shape).astype("int32")
        given[1, 4:] = 0
        if "with_holes" in tensor.name:  # one in the middle, nothing but padding, padding at the start
            given[0, 1], given[1], given[2, :2] = 0, 0, 0
        return given
    given = rng.standard_normal(shape).astype("float32")
    if len(shape) == 3:
        given[1, 4:] = 0.0
        given[2, 5:] = 0.5
    return given


def is_tokens(tensor):
    return len(tensor.shape) == 2 and "features" not in tensor.name


def say(build, suffixes, what, how):
    for suffix in suffixes:
        name = build.__name__ + suffix
        FOLDER.files[name] = {"what": what, "expected": build.__name__ + ".model.npz", "expected_from": how}


def train_one_step(model):
    """Leaves optimizer_weights and a training_config in the file."""
    rng = rng_for("one step")
    model.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.train_on_batch(rng.randint(0, 13, (3, 7)), rng.randint(0, 2, (3, 1)))


def main():
    suffixes = (".h5",) if OLD else (".h5", ".keras")
    write(whole_models.sequential, "a Sequential, masked by its Embedding, with an optimizer's state", suffixes,
          train_one_step)  # fmt: skip
    write(whole_models.functional, "three inputs, three outputs, a layer that is called twice", suffixes)
    write(whole_models.nested_models, "models in models, models and layers under TimeDistributed", suffixes)
    write(whole_models.both_ways, "Bidirectional with every merge mode, masked and not", suffixes)
    write(whole_models.kept_state, "stateful layers, two batches", suffixes)
    write(whole_models.masked, "a mask through every cell, and backwards", suffixes)
    write(whole_models.hard, "hard_sigmoid in every place of recurrent layers", suffixes)
    write(whole_models.hard_dense, "hard_sigmoid in a Dense", suffixes)
    write(whole_models.encoder_decoder, "calls with initial_state, return_state", suffixes)
    write(whole_models.translator, "calls with initial_state of layers that heed a mask", suffixes)
    write(whole_models.among_others, "recurrent layers among convolutions, pools and the like", suffixes)
    write(whole_models.with_code, "a Lambda, whose code is in the file", suffixes)
    if OLD:
        write_gpu(whole_models.gpu_layers, "cuDNN layers alone, both ways, nested and under TimeDistributed")
    FOLDER.close()


if __name__ == "__main__":
    main()
