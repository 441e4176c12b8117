"""The models of the golden files: every kind of recurrent layer, several to a model so that the files stay few.

A function takes the `keras` module that builds it (Keras 2.3.1, tf.keras 1.15, tf_keras or Keras 3), so that one
topology comes from every producer. What a layer does not say is its producer's own default, which is part of what a
reader has to know; where a name speaks of a formula or an activation, the layer spells it out. Sizes are primes,
and a layer's input size is never its own size.
"""


def branches(keras, input_size, recurrent):
    """A model whose recurrent layers all read the one input."""
    layers = keras.layers
    x = layers.Input((None, input_size), name="x")
    outputs = []
    for layer in recurrent:
        answer = layer(x)
        outputs += answer if isinstance(answer, list) else [answer]
    return keras.models.Model(x, outputs)


def lstm(keras):
    layers = keras.layers
    return branches(
        keras,
        5,
        [
            layers.LSTM(7, recurrent_activation="sigmoid", name="lstm_sigmoid"),
            layers.LSTM(3, recurrent_activation="hard_sigmoid", return_sequences=True, name="lstm_hard_sigmoid"),
            layers.LSTM(11, use_bias=False, name="lstm_no_bias"),
            layers.LSTM(2, unit_forget_bias=False, implementation=1, name="lstm_no_unit_forget_bias"),
            layers.LSTM(7, activation="relu", return_sequences=True, name="lstm_relu"),
            layers.LSTM(3, go_backwards=True, return_sequences=True, name="lstm_backwards"),
        ],
    )


def gru(keras):
    layers = keras.layers
    return branches(
        keras,
        3,
        [
            layers.GRU(5, reset_after=False, name="gru_before"),
            layers.GRU(7, reset_after=True, return_sequences=True, name="gru_after"),
            layers.GRU(2, recurrent_activation="hard_sigmoid", reset_after=False, name="gru_before_hard_sigmoid"),
            layers.GRU(11, recurrent_activation="hard_sigmoid", reset_after=True, name="gru_after_hard_sigmoid"),
            layers.GRU(5, use_bias=False, reset_after=False, name="gru_before_no_bias"),
            layers.GRU(7, use_bias=False, reset_after=True, name="gru_after_no_bias"),
            layers.GRU(5, go_backwards=True, return_sequences=True, reset_after=False, name="gru_before_backwards"),
        ],
    )


def simple_rnn(keras):
    layers = keras.layers
    return branches(
        keras,
        5,
        [
            layers.SimpleRNN(7, name="rnn_tanh"),
            layers.SimpleRNN(3, activation="relu", return_sequences=True, name="rnn_relu"),
            layers.SimpleRNN(2, use_bias=False, name="rnn_no_bias"),
            layers.SimpleRNN(11, go_backwards=True, return_sequences=True, name="rnn_backwards"),
        ],
    )


def mixed(keras):
    """One of each, where a file per cell would be too many."""
    layers = keras.layers
    return branches(
        keras,
        5,
        [
            layers.LSTM(7, name="lstm_default"),
            layers.LSTM(3, recurrent_activation="hard_sigmoid", return_sequences=True, name="lstm_hard_sigmoid"),
            layers.GRU(3, name="gru_default"),
            layers.GRU(2, reset_after=False, recurrent_activation="hard_sigmoid", name="gru_before_hard_sigmoid"),
            layers.SimpleRNN(11, activation="relu", use_bias=False, go_backwards=True, name="rnn_relu_backwards"),
        ],
    )


def two_ways(keras):
    """Merged and apart, for the layouts that Keras 2.3.1 does not write."""
    layers = keras.layers
    return branches(
        keras,
        3,
        [
            layers.Bidirectional(layers.GRU(5, return_sequences=True), merge_mode=None, name="gru_none"),
            layers.Bidirectional(layers.LSTM(2, return_sequences=True), name="lstm_concat"),
        ],
    )


def time_major(keras):
    """tf_keras alone can put time first: the model's input is [T, N, I]."""
    layers = keras.layers
    return branches(
        keras,
        3,
        [
            layers.LSTM(5, time_major=True, return_sequences=True, name="lstm_time_major"),
            layers.GRU(7, time_major=True, name="gru_time_major"),
        ],
    )


def narrow(keras):
    """Layers whose weights are float16 and bfloat16 in the file."""
    layers = keras.layers
    half = layers.LSTM(5, dtype="float16", name="lstm_float16")
    brain = layers.GRU(2, dtype="bfloat16", recurrent_initializer="zeros", name="gru_bfloat16")
    return branches(keras, 3, [half, brain])


def cells(keras):
    layers = keras.layers
    return branches(
        keras,
        3,
        [
            layers.RNN(
                layers.LSTMCell(7, recurrent_activation="hard_sigmoid"), return_sequences=True, name="lstm_cell"
            ),
            layers.RNN(layers.GRUCell(5, reset_after=False), name="gru_cell_before"),
            layers.RNN(
                layers.GRUCell(2, reset_after=True), go_backwards=True, return_sequences=True, name="gru_cell_after"
            ),
            layers.RNN(layers.SimpleRNNCell(11, activation="relu"), name="rnn_cell"),
            layers.RNN(
                [layers.LSTMCell(5), layers.GRUCell(7, reset_after=True)], return_sequences=True, name="stacked_cells"
            ),
        ],
    )


def bidirectional(keras):
    layers = keras.layers
    return branches(
        keras,
        5,
        [
            layers.Bidirectional(layers.LSTM(7, return_sequences=True), name="lstm_concat"),
            layers.Bidirectional(
                layers.LSTM(3, recurrent_activation="hard_sigmoid"), merge_mode="sum", name="lstm_sum"
            ),
            layers.Bidirectional(layers.GRU(2, reset_after=True), merge_mode="mul", name="gru_after_mul"),
            layers.Bidirectional(
                layers.GRU(11, reset_after=False, return_sequences=True), merge_mode="ave", name="gru_before_ave"
            ),
            layers.Bidirectional(layers.SimpleRNN(7, return_sequences=True), merge_mode=None, name="rnn_none"),
            layers.Bidirectional(
                layers.LSTM(2, go_backwards=True, return_sequences=True), name="lstm_backwards_concat"
            ),
        ],
    )


def nested(keras):
    layers = keras.layers
    inner = keras.models.Sequential(
        [layers.GRU(7, reset_after=True, return_sequences=True, input_shape=(None, 5)), layers.Dense(3)], name="inner"
    )
    deep_x = layers.Input((None, 3), name="deep_x")
    deep = keras.models.Model(
        deep_x,
        keras.models.Sequential([layers.LSTM(2, name="lstm", input_shape=(None, 3))], name="deepest")(deep_x),
        name="deep",
    )
    sentence_x = layers.Input((None, 5), name="sentence_x")
    hidden = layers.LSTM(3, return_sequences=True, name="words")(sentence_x)
    sentence = keras.models.Model(sentence_x, layers.SimpleRNN(7, name="sentence")(hidden), name="sentence_model")
    tokens = layers.Input((None,), name="tokens")
    documents = layers.Input((None, None, 5), name="documents")
    embedded = layers.Embedding(13, 5, name="embedding")(tokens)
    every = layers.TimeDistributed(layers.GRU(2, name="gru"), name="every_gru")(documents)
    outputs = [
        deep(inner(embedded)),
        layers.TimeDistributed(sentence, name="every_sentence")(documents),
        layers.Dense(3, name="out")(every),
    ]
    return keras.models.Model([tokens, documents], outputs)


def stack(keras):
    layers = keras.layers
    return keras.models.Sequential(
        [
            layers.Embedding(13, 5, mask_zero=True, name="embedding"),
            layers.LSTM(7, return_sequences=True, name="first"),
            layers.GRU(3, reset_after=True, return_sequences=True, name="second"),
            layers.BatchNormalization(name="norm"),
            layers.SimpleRNN(2, name="third"),
            layers.Dense(5, activation="softmax", name="out"),
        ],
        name="stack",
    )


def names(keras):
    """Layer names at the edge of what TensorFlow 1 accepts; HDF5 takes '/' for a folder."""
    layers = keras.layers
    return branches(
        keras,
        3,
        [
            layers.LSTM(5, name="encoder/lstm/1"),
            layers.GRU(7, name="2.gru-final"),
            layers.Bidirectional(layers.LSTM(2, name="backward_gru"), name="bi.directional"),
            layers.GRU(5, reset_after=True, name="model_weights"),
        ],
    )


def free_names(keras):
    """Layer names with blanks, punctuation and other alphabets."""
    layers = keras.layers
    return branches(
        keras,
        3,
        [
            layers.LSTM(5, name="my lstm (final, v2)"),
            layers.GRU(7, name="récurrente_层"),
            layers.Bidirectional(layers.LSTM(2, name="kernel:0"), name="bi.directional-1"),
            layers.GRU(5, name="lstm"),
        ],
    )


def stateful(keras):
    layers = keras.layers
    x = layers.Input(batch_shape=(3, 5, 2), name="x")
    sequence, h, c = layers.LSTM(7, stateful=True, return_sequences=True, return_state=True, name="lstm_stateful")(x)
    last, state = layers.GRU(3, stateful=True, return_state=True, name="gru_stateful")(sequence)
    first = keras.models.Sequential(
        [layers.SimpleRNN(11, stateful=True, batch_input_shape=(3, 5, 2), name="rnn_stateful")], name="first"
    )
    return keras.models.Model(x, [last, state, h, c, first(x)])


def no_rnn(keras):
    layers = keras.layers
    return keras.models.Sequential(
        [layers.Embedding(7, 3, input_length=5), layers.BatchNormalization(), layers.Dense(2, name="dense")],
        name="no_rnn",
    )


def old_defaults(keras, lstm_layer, gru_layer):
    """As Keras 2.2.4 built them by default: hard_sigmoid, reset before, and cuDNN layers, which are neither."""
    layers = keras.layers
    old_gru = layers.GRU(2, recurrent_activation="hard_sigmoid", reset_after=False, return_sequences=True)
    return branches(
        keras,
        5,
        [
            layers.LSTM(7, recurrent_activation="hard_sigmoid", implementation=1, name="lstm_old"),
            layers.GRU(3, recurrent_activation="hard_sigmoid", reset_after=False, implementation=1, name="gru_old"),
            layers.Bidirectional(old_gru, name="bidirectional_old"),
            layers.SimpleRNN(11, name="rnn_old"),
            lstm_layer(3, name="cudnn_lstm_old"),
            gru_layer(2, name="cudnn_gru_old"),
        ],
    )


def cudnn(keras, lstm_layer, gru_layer):
    return branches(
        keras,
        5,
        [
            lstm_layer(7, name="lstm", return_sequences=True),
            gru_layer(3, name="gru", return_sequences=True),
            lstm_layer(2, name="lstm_backwards", go_backwards=True, return_sequences=True),
            gru_layer(11, name="gru_backwards", go_backwards=True),
            lstm_layer(3, name="lstm_state", return_state=True, unit_forget_bias=False),
        ],
    )


def cudnn_bidirectional(keras, lstm_layer, gru_layer):
    layers = keras.layers
    return branches(
        keras,
        3,
        [
            layers.Bidirectional(lstm_layer(7, return_sequences=True), name="lstm_concat"),
            layers.Bidirectional(gru_layer(11), merge_mode="ave", name="gru_ave"),
            layers.Bidirectional(gru_layer(2, return_sequences=True), merge_mode=None, name="gru_none"),
        ],
    )


def cudnn_nested(keras, lstm_layer, gru_layer):
    layers = keras.layers
    inner = keras.models.Sequential(
        [gru_layer(7, return_sequences=True, input_shape=(None, 5), name="gru"), layers.Dense(3)], name="inner"
    )
    sentence_x = layers.Input((None, 5), name="sentence_x")
    hidden = layers.Bidirectional(lstm_layer(3, return_sequences=True), name="words")(sentence_x)
    sentence = keras.models.Model(sentence_x, gru_layer(2, name="sentence")(hidden), name="sentence_model")
    tokens = layers.Input((None,), name="tokens")
    documents = layers.Input((None, None, 5), name="documents")
    top = lstm_layer(11, name="top")(inner(layers.Embedding(13, 5, name="embedding")(tokens)))
    return keras.models.Model(
        [tokens, documents], [top, layers.TimeDistributed(sentence, name="every_sentence")(documents)]
    )
