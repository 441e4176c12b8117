"""Golden checkpoints of objects and SavedModels of tf_keras 2.21 (TensorFlow 2.21) and of tf.keras 1.15.5.

It runs in either environment and writes that one's folder. What Keras answers is what it answers for a model that has
loaded the checkpoint. Functions and graphs, which nothing here reads, are taken out of saved_model.pb: megabytes.
"""

import os
import shutil

import tensorflow as tf
import topologies
from recording import Folder, draw_weights, record_model, rng_for, same_weights

NEW = tf.__version__.startswith("2")
if NEW:
    import tf_keras as keras
else:
    keras = tf.keras
PRODUCER = "tf_keras-2.21.0-objects" if NEW else "tf.keras-1.15.5-objects"
OWN = "Keras itself: a copy of the layer as the restored checkpoint gives it, with return_sequences and return_state on"
FOLDER = Folder(
    PRODUCER,
    "write_tf_keras_objects.py",
    "%s tests/golden/write_tf_keras_objects.py" % ("python3.11" if NEW else "python3.7"),
    {"tensorflow": tf.__version__, "keras": keras.__version__},
    "Written on a CPU. saved_model.pb has lost its functions and graphs.",
)


def thinned(path):
    from tensorflow.core.protobuf import saved_model_pb2

    model = saved_model_pb2.SavedModel()
    with open(path, "rb") as file:
        model.ParseFromString(file.read())
    for meta in model.meta_graphs:
        meta.ClearField("graph_def")
        meta.ClearField("signature_def")
        meta.meta_info_def.ClearField("stripped_op_list")
        for functions in (meta.object_graph_def.concrete_functions, meta.collection_def):
            for key in list(functions):
                del functions[key]
    with open(path, "wb") as file:
        file.write(model.SerializeToString(deterministic=True))


def write(build, what, cases=("masked", "state")):
    stem = build.__name__
    keras.backend.clear_session()
    model = build(keras)
    draw_weights(model, rng_for(stem))
    model.save_weights(FOLDER.file(stem + ".ckpt"), save_format="tf")
    folder = FOLDER.file(stem + ".saved")
    shutil.rmtree(folder, ignore_errors=True)
    model.save(folder, save_format="tf")
    thinned(os.path.join(folder, "saved_model.pb"))
    for name in ("assets", "fingerprint.pb"):
        there = os.path.join(folder, name)
        (shutil.rmtree if os.path.isdir(there) else os.remove)(there) if os.path.exists(there) else None
    other = build(keras)
    other.load_weights(FOLDER.file(stem + ".ckpt"))
    same_weights(model, other)
    FOLDER.expect(stem, record_model(keras, other, rng_for(stem + " x"), cases))
    os.remove(FOLDER.file("checkpoint"))
    parts = [name for name in sorted(os.listdir(FOLDER.path)) if name.startswith((stem + ".ckpt", stem + ".saved"))]
    FOLDER.say(parts, what, OWN)


if __name__ == "__main__":
    write(topologies.mixed, "LSTM, GRU and SimpleRNN with the defaults of TensorFlow 2 and without")
    write(topologies.two_ways, "Bidirectional, merged and apart")
    FOLDER.close()
