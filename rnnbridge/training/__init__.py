"""Training models around rb.LSTM, rb.GRU and rb.RNN with NumPy alone.

    import rnnbridge as rb
    from rnnbridge.training import Adam, Batches, CrossEntropy, Embedding, LastStep, Linear, Sequential, fit, seeds

    seed = seeds(0)
    model = Sequential(
        Embedding(97, 16, seed=next(seed)),
        rb.LSTM(16, 32, seed=next(seed), batch_first=True),
        LastStep(),
        Linear(32, 5, seed=next(seed)),
    )
    data = Batches(tokens, kinds, lengths, batch_size=32, seed=next(seed))  # [samples, T], [samples], [samples]
    history = fit(model, data, loss=CrossEntropy(), optimiser=Adam(1e-3), epochs=10, clip_norm=1.0)

Sequences are [N, T, .] throughout. Knows the engine's layers and no framework.
"""

from rnnbridge.training.clipping import clip_by_norm, clip_by_value
from rnnbridge.training.data import Batch, Batches, Data, Windows
from rnnbridge.training.fit import evaluate, fit, train_step
from rnnbridge.training.history import History
from rnnbridge.training.losses import MSE, BCEWithLogits, CrossEntropy, LossValue
from rnnbridge.training.module import Module
from rnnbridge.training.modules import Embedding, LastStep, Linear
from rnnbridge.training.optimisers import SGD, Adam, AdamW, Optimiser, RMSprop
from rnnbridge.training.schedules import CosineDecay, ExponentialDecay, Plateau, Schedule, StepDecay, WarmUp
from rnnbridge.training.seeds import seeds
from rnnbridge.training.sequential import Sequential
from rnnbridge.training.stopping import EarlyStopping

__all__ = [
    "MSE",
    "SGD",
    "Adam",
    "AdamW",
    "BCEWithLogits",
    "Batch",
    "Batches",
    "CosineDecay",
    "CrossEntropy",
    "Data",
    "EarlyStopping",
    "Embedding",
    "ExponentialDecay",
    "History",
    "LastStep",
    "Linear",
    "LossValue",
    "Module",
    "Optimiser",
    "Plateau",
    "RMSprop",
    "Schedule",
    "Sequential",
    "StepDecay",
    "WarmUp",
    "Windows",
    "clip_by_norm",
    "clip_by_value",
    "evaluate",
    "fit",
    "seeds",
    "train_step",
]
