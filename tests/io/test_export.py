"""Exported networks: onnxruntime computes what we do, and predictions can be made from the file alone."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from sklearn.exceptions import NotFittedError

from eiv import EiVClassifier, EiVRegressor, MixturePrior, NormalPrior
from eiv.engine.streams import Purpose, Streams, network_seeds
from eiv.likelihoods import StudentTLikelihood
from eiv.posteriors import FAMILIES, BernoulliDropout, MeanField, OnnxTheta, PointPosterior, Theta
from eiv.validation import option
from pages import blocks
from smallnets import SmallConv

SMALL = {"hidden_units": 16, "n_hidden": 2, "epochs": 8, "n_networks": 2, "random_state": 0}
RANDOM = np.random.default_rng(0)
X = RANDOM.normal([3.0, 1000.0], [1.0, 50.0], (80, 2))
Y = 5 + 2 * X[:, 0] + 0.01 * X[:, 1] + 0.1 * RANDOM.normal(size=80)
X_ERR = np.array([0.2, 5.0])


def exported(model, tmp_path):
    """An exported model in onnxruntime, and what the file says of itself."""
    model.export(tmp_path / "m.onnx", "onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    return session, json.loads(session.get_modelmeta().custom_metadata_map["eiv"])


def test_every_family_has_its_case():
    assert set(NOISE_INPUTS) == set(FAMILIES)


NOISE_INPUTS = {  # what theta is made of, beside the masks
    "bernoulli_dropout": [],
    "gaussian_dropout": [],
    "variational_dropout": [],
    "concrete_dropout": [],
    "mean_field": [f"noise_of_{layer}.{part}" for layer in (0, 3, 6) for part in ("weight", "bias")],
    "ensemble": [],
    "last_layer_laplace": ["noise_of_weights"],
    "linearised_laplace": ["noise_of_weights"],
    "swag": ["noise_of_path", *(f"noise_of_{layer}.{part}" for layer in (0, 3, 6) for part in ("weight", "bias"))],
}


def test_classes_of_ours_go_by_their_names(tmp_path):
    X = np.random.default_rng(0).normal(size=(50, 1))
    model = EiVRegressor(
        0.1, posterior=MeanField, likelihood=StudentTLikelihood, recipe="paper", y_noise="likelihood", epochs=2,
        hidden_units=4,
    ).fit(X, X[:, 0])  # fmt: skip
    _, about = exported(model, tmp_path)
    assert (about["posterior"], about["likelihood"]["name"]) == ("mean_field", "student_t")


def given_draw(model, draw, network):
    """The inputs of the exported network that stand for our own draw, the first one of `network`."""
    posterior = model.posterior_
    family = model.posterior
    if family in ("mean_field", "swag"):
        shapes = {name: value.shape[1:] for name, value in posterior.stack.parameters.items()}
        if family == "swag":
            return {f"noise_of_{name}": value[network, 0].numpy() for name, value in draw.items()}
        parts = draw["weights"][network, 0].split([shape.numel() for shape in shapes.values()])
        return {
            f"noise_of_{name}": part.reshape(shape).numpy()
            for (name, shape), part in zip(shapes.items(), parts, strict=True)
        }
    if family in ("last_layer_laplace", "linearised_laplace"):
        return {"noise_of_weights": draw["head"][network, 0].numpy()}
    if family == "ensemble":
        return {}
    masks = posterior.theta(draw).masks.values()
    return {f"mask_{i}": mask[network, :1].numpy() for i, mask in enumerate(masks, 1)}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_same_draws_give_the_same_numbers(family, dtype, tmp_path):
    model = EiVRegressor(X_ERR, posterior=family, dtype=dtype, **SMALL, recipe="paper").fit(X, Y)
    session, description = exported(model, tmp_path)
    assert description["n_networks"] == 2
    masks = [name for name in ("mask_1", "mask_2") if description["masks"] is not None]
    names = {put.name for put in session.get_inputs()}
    assert names == {"zeta_mean", "zeta_std", "noise", "network", *masks, *NOISE_INPUTS[family]}

    posterior = model.posterior_
    like = posterior.parameters[0]
    streams = Streams.of(network_seeds(0, 2), Purpose.PREDICT_WEIGHTS, like.device, like.dtype)
    noise = np.random.default_rng(1).standard_normal(X.shape)
    inputs = model.model_.zeta_posterior(X, X_ERR[None], like.device, like.dtype)
    with torch.no_grad():
        draw = posterior.draw(streams, 1)
        zeta = inputs.draw(torch.tensor(noise, dtype=like.dtype).unsqueeze(1)).squeeze(1)
        f = posterior.evaluate(draw, zeta.expand(2, 1, -1, -1))[:, 0].double().numpy()
        ours = f * model.model_.y_scaler.scale + model.model_.y_scaler.shift
        for network in range(2):
            given = {"zeta_mean": X, "zeta_std": X_ERR[None], "noise": noise, "network": np.array(network)}
            (f,) = session.run(["f"], given | given_draw(model, draw, network))
            assert f.shape == (80, 1)
            np.testing.assert_allclose(f, ours[network], rtol=0, atol=2e-5 if dtype == "float32" else 1e-12)
    assert np.abs(ours[0] - ours[1]).max() > 1e-3  # so the index of the network matters


def test_noise_that_varies_is_an_output(any_head, tmp_path):
    """Two networks and two outputs; the limits of the training rows hold here as in predictions."""
    Y2 = np.stack([Y, -3 * Y], axis=1)
    model = EiVRegressor(X_ERR, likelihood="varying", posterior="ensemble", network="paper", dtype="float64", **SMALL)
    model.fit(X, Y2)
    likelihood = model.model_.likelihood
    likelihood.limits.copy_(torch.tensor([[-0.1, -0.2, 0.1, 0.2], [-9.0, -9.0, 9.0, 9.0]]))
    session, _ = exported(model, tmp_path)
    assert [put.name for put in session.get_outputs()] == ["f", "sigma"]
    posterior = model.posterior_
    inputs = model.model_.zeta_posterior(X, 0 * X_ERR[None], torch.device("cpu"), torch.float64)
    streams = Streams.of(network_seeds(0, 2), Purpose.PREDICT_WEIGHTS, torch.device("cpu"), torch.float64)
    with torch.no_grad():
        h = posterior.evaluate(posterior.draw(streams, 1), inputs.mean.expand(2, -1, -1).unsqueeze(1))[:, 0, :, 2:]
    low, high = likelihood.limits.unflatten(1, (2, 2)).unbind(1)
    within = torch.minimum(torch.maximum(likelihood.share[:, None] * h, low[:, None]), high[:, None])
    wanted = (likelihood.y_noise[:, None] * within.exp()).numpy() * model.model_.y_scaler.scale
    for network in range(2):
        given = {"zeta_mean": X, "zeta_std": 0 * X_ERR[None], "noise": 0 * X[:1], "network": np.array(network)}
        np.testing.assert_allclose(session.run(["sigma"], given)[0], wanted[network], rtol=1e-9)
    assert (within[0].abs() <= torch.tensor([0.1, 0.2])).all()
    assert np.ptp(wanted[1], axis=0).min() > 0


def silu_network(n_inputs, n_outputs):
    return torch.nn.Sequential(
        torch.nn.Linear(n_inputs, 16), torch.nn.SiLU(), torch.nn.Dropout(0.2), torch.nn.Linear(16, n_outputs)
    )


@pytest.mark.parametrize("family", ["bernoulli_dropout", "linearised_laplace"])
def test_a_module_of_silu_gives_the_same_numbers(family, tmp_path):
    options = {"posterior": family, "dtype": "float64", "epochs": 8, "random_state": 0, "recipe": "paper"}
    model = EiVRegressor(X_ERR, module=silu_network, **options).fit(X, Y)
    session, _ = exported(model, tmp_path)
    posterior, fitted = model.posterior_, model.model_
    with torch.no_grad():
        draw = posterior.draw(
            Streams.of(network_seeds(0, 1), Purpose.PREDICT_WEIGHTS, torch.device("cpu"), torch.float64), 1
        )
        zeta = torch.tensor((X - fitted.x_scaler.shift) / fitted.x_scaler.scale)
        f = posterior.evaluate(draw, zeta.expand(1, 1, -1, -1))[0, 0].numpy()
    given = {"zeta_mean": X, "zeta_std": X_ERR[None], "noise": 0 * X, "network": np.array(0)}
    (found,) = session.run(["f"], given | given_draw(model, draw, 0))
    np.testing.assert_allclose(found, f * fitted.y_scaler.scale + fitted.y_scaler.shift, rtol=0, atol=1e-12)


def predictions_of_the_file(session, description, zeta, n_theta, seed=0):
    """f for `draws x rows x n_x` true inputs under fresh masks, by onnxruntime and numpy: `thetas x draws x rows`."""
    random = np.random.default_rng(seed)
    widths = {put.name: put.shape[1] for put in session.get_inputs() if put.name.startswith("mask_")}
    flat = zeta.reshape(-1, zeta.shape[-1])
    found = []
    for network, rates in enumerate(description["masks"]["p"]):
        for _ in range(n_theta):
            masks = {
                name: ((random.random((1, width)) >= p) / (1 - p)).astype(np.float32)
                for (name, width), p in zip(widths.items(), rates, strict=True)
            }
            exact = {"zeta_mean": flat, "zeta_std": np.zeros((1, flat.shape[1])), "noise": np.zeros((1, flat.shape[1]))}
            (f,) = session.run(["f"], exact | masks | {"network": np.array(network)})
            found.append(f.reshape(zeta.shape[:2]))
    return np.stack(found)


@pytest.mark.parametrize(
    "prior", ["flat", NormalPrior(std=[1.0, 50.0], mean=[3.0, 1000.0]), "normal", "mixture"], ids=str
)
def test_a_prediction_from_the_file_alone(prior, tmp_path):
    """Mean and both parts of the uncertainty agree within the error of so many draws."""
    model = EiVRegressor(X_ERR, input_prior=prior, dropout=0.2, n_theta=1000, **SMALL, recipe="paper").fit(X, Y)
    session, description = exported(model, tmp_path)
    rows, n_theta, n_zeta = X[:6], 500, 60
    if prior == "flat":
        noise = np.random.default_rng(2).standard_normal((n_zeta, *rows.shape))
        zeta = rows + np.asarray(description["x_err"]) * noise
    else:
        zeta = model.draw_zeta(rows, n_zeta, random_state=2)
    f = predictions_of_the_file(session, description, zeta, n_theta)
    p = model.predict_distribution(rows)
    total = p.std
    np.testing.assert_allclose(f.mean((0, 1)), p.mean, atol=4 * (p.aleatoric / n_zeta**0.5 + p.epistemic / 30).max())
    np.testing.assert_allclose(f.std((0, 1)), total, rtol=0.25)
    np.testing.assert_allclose(f.mean(0).std(0), p.aleatoric, rtol=0.4)
    assert description["y_noise"] == pytest.approx(model.y_noise_.tolist())
    noise = np.square(description["likelihood"]["state"]["y_noise"]).mean(0) ** 0.5
    assert noise * description["likelihood"]["y_scale"] == pytest.approx(model.y_noise_)


def test_drawn_zetas_have_the_moments_of_their_posterior():
    """Appendix A.2 of the paper, for errors of each row."""
    errors = np.array([[0.2, 5.0], [1.0, 50.0]])
    prior = NormalPrior(std=[1.0, 50.0], mean=[3.0, 1000.0])
    model = EiVRegressor(input_prior=prior, **SMALL | {"epochs": 1}, recipe="paper").fit(
        X, Y, X_err=np.full(X.shape, X_ERR)
    )
    zeta = model.draw_zeta(X[:2], 20_000, X_err=errors, random_state=0)
    share = 1 / (1 + (errors / [1.0, 50.0]) ** 2)
    np.testing.assert_allclose(zeta.std(0), share**0.5 * errors, rtol=0.03)
    centre = np.array([3.0, 1000.0])
    np.testing.assert_allclose((zeta.mean(0) - centre - share * (X[:2] - centre)) / errors, 0, atol=0.04)


def test_what_the_file_says_of_itself(tmp_path):
    import pandas as pd  # noqa: PLC0415

    table = pd.DataFrame(X, columns=["length", "größe"])
    prior = NormalPrior(std=[1.0, np.inf], mean=[3.0, 0.0])
    model = EiVRegressor(X_ERR, input_prior=prior, dropout=0.2, **SMALL, recipe="paper").fit(
        table, pd.DataFrame({"a": Y, "b": -Y})
    )
    _, description = exported(model, tmp_path)
    assert description["features"] == {"n": 2, "names": ["length", "größe"]}
    assert description["outputs"] == {"n": 2, "names": ["a", "b"]}
    assert description["masks"] == {"kind": "bernoulli", "p": [[0.2, 0.2]] * 2}
    assert description["input_prior"] == {"type": "NormalPrior", "std": [1.0, "Infinity"], "mean": [3.0, 0.0]}
    assert description["x_err"] == [0.2, 5.0]
    mixture = MixturePrior([1], [[3.0, 1000.0]], [[1.0, 2500.0]])
    _, description = exported(EiVRegressor(X_ERR, input_prior=mixture, **SMALL, recipe="paper").fit(X, Y), tmp_path)
    assert description["input_prior"]["covariances"] == [[1.0, 2500.0]]
    model.export(tmp_path / "again.onnx")
    model.export(tmp_path / "m.onnx")
    assert (tmp_path / "m.onnx").read_bytes() == (tmp_path / "again.onnx").read_bytes()


def test_what_cannot_be_exported(tmp_path, monkeypatch):
    with pytest.raises(NotFittedError):
        EiVRegressor(recipe="paper").export(tmp_path / "m.onnx")
    wide = np.random.default_rng(0).normal(size=(30, 12))
    model = EiVRegressor(0.1, module=SmallConv, epochs=1, recipe="paper").fit(wide, wide.sum(1))
    with pytest.raises(ValueError, match=r"only chains of Linear.*torch\.onnx\.export"):
        model.export(tmp_path / "m.onnx")
    model = EiVRegressor(0.1, **SMALL, recipe="paper").fit(X, Y)
    with pytest.raises(ValueError, match="form must be 'onnx', got 'pickle'"):
        model.export(tmp_path / "m.onnx", "pickle")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r'needs onnx, which is missing: pip install "eiv\[onnx\]"'):
        model.export(tmp_path / "m.onnx")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("base", [PointPosterior, BernoulliDropout, MeanField])
def test_a_family_that_does_not_say_how_it_is_drawn_is_refused(base, tmp_path, monkeypatch):
    """It would come out as a point, or as the family that it is derived from."""

    class Doubled(base):
        weight_decay = None

        def theta(self, draw):
            masks, parameters = super().theta(draw)
            return Theta(masks, {name: 2 * value for name, value in parameters.items()})

    monkeypatch.setitem(FAMILIES, "doubled", Doubled)
    monkeypatch.setitem(EiVRegressor._constraints, "posterior", option(*FAMILIES))
    model = EiVRegressor(X_ERR, posterior="doubled", **SMALL | {"epochs": 1}, recipe="paper").fit(X, Y)
    with pytest.raises(ValueError, match=r"'doubled' \(Doubled\) cannot be exported.* can be: 'bernoulli.*, 'swag'\.$"):
        model.export(tmp_path / "m.onnx")
    assert list(tmp_path.iterdir()) == []


class HalfNormal(MeanField):
    """Weights of half the standard deviation, in both of the ways that they are drawn."""

    def draw(self, streams, n_draws):
        return {name: 0.5 * noise for name, noise in super().draw(streams, n_draws).items()}

    def onnx_theta(self, graph, parameters):
        drawn = super().onnx_theta(graph, parameters).parameters
        half, shares = graph.constant(np.float32(0.5)), {}
        for name, mean in parameters.items():
            shares[name] = graph.add("Add", mean, graph.add("Mul", half, graph.add("Sub", drawn[name], mean)))
        return OnnxTheta(shares)


def test_a_family_of_ones_own_that_says_it_is_exported(tmp_path):
    model = EiVRegressor(X_ERR, posterior=HalfNormal, **SMALL, recipe="paper").fit(X, Y)
    session, _ = exported(model, tmp_path)
    posterior, scaler = model.posterior_, model.model_.y_scaler
    streams = Streams.of(network_seeds(0, 2), Purpose.PREDICT_WEIGHTS, torch.device("cpu"), torch.float32)
    noise = MeanField.draw(posterior, streams, 1)["weights"]
    shapes = {name: value.shape[1:] for name, value in posterior.stack.parameters.items()}
    parts = noise[1, 0].split([shape.numel() for shape in shapes.values()])
    given = {"zeta_mean": X, "zeta_std": 0 * X_ERR[None], "noise": 0 * X[:1], "network": np.array(1)}
    given |= {
        f"noise_of_{name}": part.reshape(shape).numpy()
        for (name, shape), part in zip(shapes.items(), parts, strict=True)
    }
    zeta = model.model_.zeta_posterior(X, 0 * X_ERR[None], torch.device("cpu"), torch.float32).mean
    with torch.no_grad():
        f = posterior.evaluate({"weights": 0.5 * noise}, zeta.expand(2, 1, -1, -1))[1, 0].double().numpy()
    np.testing.assert_allclose(session.run(["f"], given)[0], f * scaler.scale + scaler.shift, rtol=0, atol=2e-5)


def test_the_file_has_the_shares_of_the_networks(tmp_path):
    model = EiVRegressor(X_ERR, **SMALL | {"epochs": 1}, recipe="paper").fit(X, Y)
    assert exported(model, tmp_path)[1]["weights"] == [0.5, 0.5]
    model.model_ = replace(model.model_, weights=np.array([0.9, 0.1]))
    assert exported(model, tmp_path)[1]["weights"] == [0.9, 0.1]


def test_the_documented_way_gives_our_prediction(tmp_path, monkeypatch):
    """The last Python block of docs/modelfiles.md, as written."""
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs" / "modelfiles.md").read_text()
    names = {}
    exec(blocks(page)[-1].text, names)
    p = names["model"].predict_distribution(names["x"])
    np.testing.assert_allclose(names["mean"], p.mean, atol=5 * p.std.max() / 200**0.5)
    np.testing.assert_allclose(names["std"], p.std, rtol=0.2)


def test_a_model_of_classes_has_probabilities(tmp_path):
    y = np.where(X[:, 0] > 3, "b", "a")
    model = EiVClassifier(X_ERR, posterior="last_layer_laplace", **SMALL).fit(X, y)
    session, said = exported(model, tmp_path)
    assert said["outputs"]["classes"] == ["a", "b"]
    n_weights = model.posterior_.n_weights
    given = {"zeta_mean": X[:5], "zeta_std": np.zeros((1, 2)), "noise": np.zeros((1, 2))}
    given |= {"network": np.array(1), "noise_of_weights": np.zeros(n_weights, np.float32)}
    (found,) = session.run(["probabilities"], given)
    scaler = model.model_.x_scaler
    zeta = torch.tensor((X[:5] - scaler.shift) / scaler.scale).expand(2, -1, -1)
    expected = model.model_.for_predictions().mean(zeta)[1].softmax(-1)
    np.testing.assert_allclose(found, expected, atol=1e-5)
