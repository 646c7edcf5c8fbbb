"""GluonTS: estimators train, predict, and predictors survive a round trip through files (0.13 and 0.17)."""
import numpy as np
import pandas as pd
import pytest

import mxnet as mx
from gluonts.dataset.common import ListDataset
from gluonts.mx import distribution as dists
from gluonts.mx.trainer import Trainer
from mxnet import autograd, nd

from common import flat

LENGTH, AHEAD = 60, 4


def dataset(count=3):
    start = pd.Period("2021-01-01", freq="D")
    wave = np.sin(np.arange(LENGTH) * 2 * np.pi / 7) + 2
    return ListDataset([{"start": start, "target": (wave * (i + 1)).astype("float32"), "feat_static_cat": [i]}
                        for i in range(count)], freq="D")


def trainer(**options):
    return Trainer(epochs=2, num_batches_per_epoch=4, learning_rate=0.01, **options)


def simple(**options):
    from gluonts.mx import SimpleFeedForwardEstimator
    return SimpleFeedForwardEstimator(prediction_length=AHEAD, context_length=8, num_hidden_dimensions=[8],
                                      trainer=trainer(**options), batch_size=4)


def deepar(**options):
    from gluonts.mx import DeepAREstimator
    return DeepAREstimator(freq="D", prediction_length=AHEAD, context_length=8, num_layers=1, num_cells=8,
                           trainer=trainer(**options), batch_size=4, num_parallel_samples=5)


def wavenet(**options):
    from gluonts.mx import WaveNetEstimator
    return WaveNetEstimator(freq="D", prediction_length=AHEAD, trainer=trainer(**options), batch_size=4,
                            num_parallel_samples=5, embedding_dimension=2, num_bins=16, n_residue=4, n_skip=4,
                            dilation_depth=2, n_stacks=1)


def transformer(**options):
    from gluonts.mx import TransformerEstimator
    return TransformerEstimator(freq="D", prediction_length=AHEAD, context_length=8, model_dim=8, num_heads=2,
                                trainer=trainer(**options), batch_size=4, num_parallel_samples=5)


def mqcnn(**options):
    from gluonts.mx import MQCNNEstimator
    return MQCNNEstimator(freq="D", prediction_length=AHEAD, context_length=8, trainer=trainer(**options), batch_size=4,
                          quantiles=[0.1, 0.5, 0.9])


def mqrnn(**options):
    from gluonts.mx import MQRNNEstimator
    return MQRNNEstimator(freq="D", prediction_length=AHEAD, context_length=8, trainer=trainer(**options), batch_size=4,
                          quantiles=[0.1, 0.5, 0.9])


def nbeats(**options):
    from gluonts.mx import NBEATSEstimator
    return NBEATSEstimator(freq="D", prediction_length=AHEAD, context_length=8, num_stacks=2, widths=[8],
                           num_blocks=[1], trainer=trainer(**options), batch_size=4)


def tft(**options):
    from gluonts.mx import TemporalFusionTransformerEstimator
    return TemporalFusionTransformerEstimator(freq="D", prediction_length=AHEAD, context_length=8, hidden_dim=8,
                                              num_heads=2, trainer=trainer(**options), batch_size=4)


def deepstate(**options):
    from gluonts.mx import DeepStateEstimator
    return DeepStateEstimator(freq="D", prediction_length=AHEAD, past_length=14, num_layers=1, num_cells=4,
                              cardinality=[3], use_feat_static_cat=True, trainer=trainer(**options), batch_size=4,
                              num_parallel_samples=5)


ESTIMATORS = [simple, deepar, wavenet, transformer, mqcnn, mqrnn, nbeats, tft, deepstate]


@pytest.mark.parametrize("make", ESTIMATORS, ids=[make.__name__ for make in ESTIMATORS])
def test_estimator(make, tmp_path):
    predictor = make().train(dataset())
    forecasts = list(predictor.predict(dataset()))
    assert len(forecasts) == 3
    for forecast in forecasts:
        assert forecast.quantile(0.5).shape == (AHEAD,) and np.isfinite(forecast.quantile(0.5)).all()
    predictor.serialize(tmp_path)
    from gluonts.model.predictor import Predictor
    again = list(Predictor.deserialize(tmp_path).predict(dataset()))
    assert again[0].quantile(0.5).shape == (AHEAD,)


def test_hybridized_training_is_equal():
    """The same seed gives the same loss with and without hybridization."""
    losses = []
    for hybridize in (True, False):
        np.random.seed(0)
        mx.random.seed(0)
        network = simple(hybridize=hybridize).train_model(dataset(), None).trained_net
        losses.append(sorted(float(p.data().norm().asscalar()) for p in network.collect_params().values()))
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-3)


def test_quality():
    """A longer training comes close to a wave that repeats."""
    from gluonts.evaluation import Evaluator, make_evaluation_predictions
    from gluonts.mx import SimpleFeedForwardEstimator
    estimator = SimpleFeedForwardEstimator(prediction_length=AHEAD, context_length=14, num_hidden_dimensions=[16],
                                           trainer=Trainer(epochs=5, num_batches_per_epoch=30, learning_rate=0.01),
                                           batch_size=8)
    forecasts, series = make_evaluation_predictions(dataset(), estimator.train(dataset()), num_samples=50)
    metrics, _ = Evaluator(num_workers=0)(list(series), list(forecasts))
    assert metrics["MASE"] < 0.6


@pytest.mark.parametrize("output", [
    dists.StudentTOutput(), dists.GaussianOutput(), dists.GammaOutput(), dists.BetaOutput(), dists.LaplaceOutput(),
    dists.NegativeBinomialOutput(), dists.PoissonOutput(), dists.UniformOutput(), dists.MixtureDistributionOutput(
        [dists.GaussianOutput(), dists.StudentTOutput()]), dists.PiecewiseLinearOutput(num_pieces=3),
    dists.LowrankMultivariateGaussianOutput(dim=3, rank=2), dists.DirichletOutput(dim=3),
], ids=lambda output: type(output).__name__)
def test_distribution(output):
    """Arguments from a projection, samples of the right shape, a loss with gradients; equal when hybridized."""
    projection = output.get_args_proj()
    projection.initialize(mx.init.Xavier())
    features = nd.random.uniform(shape=(4, 6))
    made = output.distribution(projection(features))
    sample = made.sample(num_samples=10)
    assert sample.shape == (10, 4) + tuple(output.event_shape) and np.isfinite(sample.asnumpy()).all()
    value = made.sample()
    with autograd.record():
        loss = output.distribution(projection(features)).loss(value).mean()
    loss.backward()
    assert np.isfinite(loss.asnumpy()).all()
    before = [a.asnumpy() for a in flat(projection(features))]
    projection.hybridize()
    for a, b in zip(before, flat(projection(features)), strict=True):
        np.testing.assert_allclose(a, b.asnumpy(), rtol=1e-5, atol=1e-6)
