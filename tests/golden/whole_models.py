"""Whole models for the upgrade: recurrent layers among others, as people wired them in Keras 2.

A function takes the `keras` module that builds it (Keras 2.3.1 or tf_keras), as in topologies.py, and says what a name
speaks of. Every model is small and takes few inputs; sizes are primes.
"""


def sequential(keras):
    layers = keras.layers
    return keras.models.Sequential(
        [
            layers.Embedding(13, 5, mask_zero=True, input_length=7, name="embedding"),
            layers.SpatialDropout1D(0.25, name="drop"),
            layers.LSTM(7, recurrent_activation="hard_sigmoid", return_sequences=True, implementation=1, name="first"),
            layers.GRU(3, recurrent_activation="sigmoid", reset_after=False, dropout=0.5, name="second"),
            layers.BatchNormalization(name="norm"),
            layers.Dense(2, name="dense"),
            layers.Activation("softmax", name="out"),
        ],
        name="sequential",
    )


def functional(keras):
    """Several inputs and outputs, and a layer that is called twice."""
    layers = keras.layers
    tokens = layers.Input((7,), name="tokens", dtype="int32")
    more = layers.Input((7,), name="more", dtype="int32")
    features = layers.Input((5,), name="features")
    embedding = layers.Embedding(11, 3, name="embedding")
    shared = layers.LSTM(5, recurrent_activation="hard_sigmoid", name="shared")
    one, other = shared(embedding(tokens)), shared(embedding(more))
    both = layers.Concatenate(name="both")([one, other, features])
    added = layers.Add(name="added")([one, other])
    scored = layers.Dot(axes=-1, normalize=True, name="scored")([one, other])
    return keras.models.Model(
        [tokens, features, more],
        [layers.Dense(2, activation="sigmoid", name="out")(both), layers.Dense(3, name="sum")(added), scored],
        name="functional",
    )


def nested_models(keras):
    layers = keras.layers
    inner = keras.models.Sequential(
        [
            layers.GRU(7, recurrent_activation="hard_sigmoid", reset_after=True, return_sequences=True,
                       input_shape=(None, 5), name="gru"),
            layers.TimeDistributed(layers.Dense(3, name="dense"), name="every_dense"),
        ],
        name="inner",
    )  # fmt: skip
    deep_x = layers.Input((None, 3), name="deep_x")
    deep = keras.models.Model(
        deep_x,
        keras.models.Sequential(
            [layers.LSTM(2, recurrent_activation="sigmoid", input_shape=(None, 3), name="lstm")], name="deepest"
        )(deep_x),
        name="deep",
    )
    word_x = layers.Input((3, 5), name="word_x")
    word = keras.models.Model(word_x, layers.SimpleRNN(7, name="letters")(word_x), name="word_model")
    x = layers.Input((3, 5), name="x")
    words = layers.Input((2, 3, 5), name="words")
    every = layers.TimeDistributed(word, name="every_word")(words)
    summed = layers.LSTM(3, recurrent_activation="hard_sigmoid", name="over_words")(every)
    cells = layers.TimeDistributed(
        layers.GRU(2, recurrent_activation="sigmoid", reset_after=False, name="gru"), name="every_gru"
    )(words)
    return keras.models.Model([x, words], [deep(inner(x)), summed, cells], name="nested_models")


def both_ways(keras):
    """Every merge mode, every cell, one hard sigmoid, masked."""
    layers = keras.layers
    x = layers.Input((7, 5), name="x")
    masked = layers.Masking(mask_value=0.5, name="masking")(x)
    old = {"recurrent_activation": "hard_sigmoid", "return_sequences": True}
    made = [
        layers.Bidirectional(layers.LSTM(3, **old), merge_mode="concat", name="concat")(masked),
        layers.Bidirectional(layers.GRU(2, reset_after=False, **old), merge_mode="sum", name="sum")(masked),
        layers.Bidirectional(layers.GRU(5, reset_after=True, **old), merge_mode="mul", name="mul")(x),
        layers.Bidirectional(layers.SimpleRNN(7), merge_mode="ave", name="ave")(masked),
    ]
    made += layers.Bidirectional(
        layers.LSTM(2, recurrent_activation="sigmoid", return_sequences=True), merge_mode=None, name="apart"
    )(x)
    return keras.models.Model(x, made, name="both_ways")


def kept_state(keras):
    """Stateful layers; the second batch starts where the first ended."""
    layers = keras.layers
    return keras.models.Sequential(
        [
            layers.LSTM(7, recurrent_activation="hard_sigmoid", stateful=True, return_sequences=True,
                        batch_input_shape=(3, 5, 2), name="lstm"),
            layers.GRU(3, recurrent_activation="hard_sigmoid", reset_after=False, stateful=True, name="gru"),
            layers.Dense(2, name="out"),
        ],
        name="kept_state",
    )  # fmt: skip


def masked(keras):
    """A mask through every cell and what keeps it."""
    layers = keras.layers
    x = layers.Input((7, 5), name="x")
    seen = layers.Masking(mask_value=0.0, name="masking")(x)
    lstm = layers.LSTM(3, recurrent_activation="hard_sigmoid", return_sequences=True, name="lstm")(seen)
    gru = layers.GRU(2, recurrent_activation="sigmoid", reset_after=True, name="gru")(
        layers.Dropout(0.5, name="drop")(lstm)
    )
    back = layers.SimpleRNN(7, go_backwards=True, return_sequences=True, name="back")(seen)
    every = layers.TimeDistributed(layers.Dense(2, name="dense"), name="every")(seen)
    last = layers.GRU(5, recurrent_activation="hard_sigmoid", reset_after=False, name="last")(every)
    return keras.models.Model(x, [lstm, gru, back, last], name="masked")


def hard(keras):
    """A hard sigmoid in every place that a recurrent layer has for one."""
    layers = keras.layers
    x = layers.Input((7, 5), name="x")
    old = {"recurrent_activation": "hard_sigmoid"}
    made = [
        layers.LSTM(7, name="lstm", **old)(x),
        layers.LSTM(3, use_bias=False, go_backwards=True, name="no_bias", **old)(x),
        layers.GRU(2, reset_after=False, name="before", **old)(x),
        layers.GRU(11, reset_after=True, activation="relu", name="after", **old)(x),
        layers.SimpleRNN(5, activation="hard_sigmoid", name="rnn")(x),
        layers.RNN(layers.LSTMCell(3, name="cell", **old), name="of_a_cell")(x),
    ]
    return keras.models.Model(x, made, name="hard")


def hard_dense(keras):
    """A hard sigmoid outside the recurrent layers."""
    layers = keras.layers
    x = layers.Input((7, 5), name="x")
    gru = layers.GRU(3, recurrent_activation="hard_sigmoid", reset_after=False, name="gru")(x)
    return keras.models.Model(x, layers.Dense(2, activation="hard_sigmoid", name="dense")(gru), name="hard_dense")


def encoder_decoder(keras):
    """States of one layer start another: calls with initial_state, and return_state."""
    layers = keras.layers
    source = layers.Input((7, 5), name="source")
    target = layers.Input((3, 2), name="target")
    _, h, c = layers.LSTM(3, recurrent_activation="hard_sigmoid", return_state=True, name="encoder")(source)
    decoder = layers.LSTM(
        3, recurrent_activation="hard_sigmoid", return_sequences=True, return_state=True, name="decoder"
    )
    decoded, h, c = decoder(target, initial_state=[h, c])
    both = layers.Bidirectional(layers.LSTM(5, recurrent_activation="sigmoid", return_state=True), name="both")
    answer = both(source)
    again = layers.Bidirectional(layers.LSTM(5, recurrent_activation="sigmoid"), merge_mode="sum", name="again")(
        target, initial_state=answer[1:]
    )
    outputs = [layers.TimeDistributed(layers.Dense(7), name="out")(decoded), h, c, again]
    return keras.models.Model([source, target], outputs, name="encoder_decoder")


def translator(keras):
    """Decoders that start from an encoder's states and heed a mask: one called twice, one both ways, one of numbers."""
    layers = keras.layers
    source = layers.Input((7,), name="source", dtype="int32")
    target = layers.Input((5,), name="target_with_holes", dtype="int32")
    other = layers.Input((3,), name="other_with_holes", dtype="int32")
    numbers = layers.Input((7, 2), name="numbers")
    words = layers.Embedding(11, 5, mask_zero=True, name="words")
    _, h, c = layers.LSTM(3, recurrent_activation="sigmoid", return_state=True, name="encoder")(words(source))
    decoder = layers.LSTM(3, recurrent_activation="sigmoid", return_sequences=True, name="decoder")
    one = decoder(layers.Dropout(0.25, name="drop")(words(target)), initial_state=[h, c])
    two = decoder(words(other), initial_state=[h, c])
    both = layers.Bidirectional(layers.GRU(3, recurrent_activation="sigmoid", reset_after=True), name="both")(
        one, initial_state=[h, c]
    )
    seen = layers.Masking(0.5, name="masking")(numbers)
    last = layers.GRU(3, recurrent_activation="hard_sigmoid", reset_after=False, name="last")(seen, initial_state=[c])
    outputs = [layers.TimeDistributed(layers.Dense(2), name="every")(one), two, both, last]
    return keras.models.Model([source, target, other, numbers], outputs, name="translator")


def among_others(keras):
    """The layers that recurrent ones stand among."""
    layers = keras.layers
    x = layers.Input((12, 5), name="x")
    image = layers.Input((8, 6, 2), name="image")
    seen = layers.Conv1D(7, 3, padding="causal", dilation_rate=2, activation="relu", name="conv")(x)
    seen = layers.BatchNormalization(scale=False, name="norm")(seen)
    seen = layers.LeakyReLU(alpha=0.2, name="leaky")(layers.MaxPooling1D(2, name="pool")(seen))
    seen = layers.GaussianNoise(0.1, name="noise")(layers.UpSampling1D(2, name="up")(seen))
    lstm = layers.LSTM(3, recurrent_activation="hard_sigmoid", return_sequences=True, name="lstm")(seen)
    pools = [
        layers.GlobalMaxPooling1D(name="maximum")(lstm),
        layers.GlobalAveragePooling1D(name="mean")(lstm),
        layers.Flatten(name="flat")(layers.AveragePooling1D(5, name="average")(lstm)),
    ]
    turned = layers.Permute((2, 1), name="turned")(lstm)
    plane = layers.Conv2D(3, (3, 2), strides=(2, 1), padding="same", use_bias=False, name="conv2d")(image)
    plane = layers.MaxPooling2D((2, 2), name="pool2d")(layers.PReLU(shared_axes=[1, 2], name="prelu")(plane))
    rows = layers.Reshape((2, 9), name="rows")(layers.ZeroPadding2D((0, 0), name="pad")(plane))
    gru = layers.GRU(11, recurrent_activation="sigmoid", reset_after=False, name="gru")(rows)
    again = layers.RepeatVector(2, name="again")(layers.ELU(alpha=0.5, name="elu")(gru))
    merged = layers.Concatenate(name="merged")(pools)
    return keras.models.Model(
        [x, image], [layers.Dense(2, name="out")(merged), turned, layers.SimpleRNN(3, name="rnn")(again)],
        name="among_others",
    )  # fmt: skip


def with_code(keras):
    """A Lambda: code in a file, which would say where this script lies if it were not compiled by itself."""
    layers = keras.layers
    double = eval(compile("lambda x: x * 2.0", "whole_models.py", "eval"))
    return keras.models.Sequential(
        [
            layers.LSTM(3, recurrent_activation="hard_sigmoid", input_shape=(7, 5), name="lstm"),
            layers.Lambda(double, name="double"),
            layers.Dense(2, name="out"),
        ],
        name="with_code",
    )


def gpu_layers(keras, lstm_layer, gru_layer):
    """cuDNN layers: alone, both ways, in a nested model and under TimeDistributed."""
    layers = keras.layers
    x = layers.Input((7, 5), name="x")
    words = layers.Input((2, 7, 5), name="words")
    inner = keras.models.Sequential([gru_layer(3, input_shape=(7, 5), name="gru"), layers.Dense(2)], name="inner")
    made = [
        lstm_layer(3, return_sequences=True, name="lstm")(x),
        gru_layer(2, go_backwards=True, name="back")(x),
        layers.Bidirectional(lstm_layer(7, return_sequences=True), merge_mode="sum", name="both")(x),
        layers.Bidirectional(gru_layer(2), name="both_gru")(x),
        layers.TimeDistributed(inner, name="every")(words),
    ]
    return keras.models.Model([x, words], made, name="gpu_layers")
