"""Model files: what comes back is what was saved, and nothing else is believed."""

import hashlib
import json
import pickle
import zipfile
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import safetensors
import torch
from sklearn.exceptions import NotFittedError

from eiv import EiVRegressor, LearnedPrior, MixturePrior, ModelFileError, NormalPrior, relative
from eiv.inputs import ZetaNormal
from eiv.io.modelfile import read_header, save_model
from eiv.io.modelfile.header import FORMAT
from eiv.posteriors import FAMILIES
from eiv.report.provenance import header_lines
from forging import altered, forged
from smallnets import SmallConv

FAST = {"hidden_units": 8, "n_hidden": 2, "epochs": 3, "n_theta": 10, "random_state": 0}


def table(n_rows=60, n_features=2):
    random = np.random.default_rng(0)
    X = random.normal(size=(n_rows, n_features))
    return X, X.sum(1) + 0.1 * random.normal(size=n_rows)


def assert_same(model, loaded, X, **known):
    for method in ("unbiased", "literal"):
        one, two = (m.predict_distribution(X, method=method, **known) for m in (model, loaded))
        for part in ("mean", "epistemic", "aleatoric", "noise", "draws"):
            np.testing.assert_array_equal(getattr(one, part), getattr(two, part))
    assert vars(model).keys() == vars(loaded).keys()
    np.testing.assert_array_equal(model.loss_curve_, loaded.loss_curve_)


MIXTURE = MixturePrior([1, 2], [[-1.0, 0.0], [1.0, 0.5]], [[0.5, 0.5], [0.4, 2.0]])
CASES = {
    "exact": {},
    "number": {"x_err": 0.1},
    "float64": {"x_err": [0.1, 0.0], "dtype": "float64"},
    "networks": {"x_err": np.array([0.1, 0.2]), "n_networks": 3},
    "covariance": {"x_err": [[0.04, 0.01], [0.01, 0.02]]},
    "relative": {"x_err": relative(0.05)},
    "relative to each": {"x_err": relative((0.05, np.float64(0.1)))},
    "normal prior": {"x_err": 0.3, "input_prior": NormalPrior(std=[1.0, np.inf], mean=torch.zeros(2))},
    "mixture prior": {"x_err": 0.3, "input_prior": MIXTURE},
    "learned normal": {"x_err": 0.3, "input_prior": "normal"},
    "learned mixture": {"x_err": 0.3, "input_prior": LearnedPrior(max_components=2, min_components=2)},
    "berkson": {"x_err": 0.3, "error_model": "berkson", "input_prior": "normal"},
    "known noise": {"x_err": 0.1, "y_noise": 0.2},
    "not standardised": {"x_err": 0.1, "standardise": False},
    "no seed": {"random_state": np.random.RandomState(3)},
}


@pytest.mark.parametrize("case", CASES)
def test_predictions_are_the_same_to_the_last_bit(case, tmp_path):
    X, y = table()
    model = EiVRegressor(**FAST | CASES[case], recipe="paper").fit(X, y)
    model.save(tmp_path / "m.eiv")
    loaded = EiVRegressor.load(tmp_path / "m.eiv")
    assert_same(model, loaded, X)
    loaded.save(tmp_path / "again.eiv")
    model.save(tmp_path / "m2.eiv")
    contents = [(tmp_path / name).read_bytes() for name in ("m.eiv", "m2.eiv", "again.eiv")]
    assert contents[0] == contents[1], "the same model gives the same bytes"
    assert contents[0] == contents[2], "and so does the loaded one"
    assert type(loaded.input_prior) is type(model.input_prior)


def test_errors_of_each_row_names_and_several_outputs(tmp_path):
    X, y = table()
    rows, outputs = pd.DataFrame(X, columns=["length", "größe"]), pd.DataFrame({"a": y, "b": y**2})
    errors = np.abs(X) / 10
    model = EiVRegressor(**FAST, recipe="paper").fit(rows, outputs, X_err=errors)
    model.save(tmp_path / "m.eiv")
    loaded = EiVRegressor.load(tmp_path / "m.eiv")
    assert_same(model, loaded, rows, X_err=errors)
    assert loaded.x_err_ is None
    frames = [m.predict_distribution(rows, X_err=0.1).to_frame() for m in (model, loaded)]
    pd.testing.assert_frame_equal(*frames)
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(rows.rename(columns={"length": "depth"}), X_err=0.1)
    header = read_header(tmp_path / "m.eiv")
    assert header["features"] == {"n": 2, "names": ["length", "größe"]}
    assert header["outputs"] == {"n": 2, "names": ["a", "b"], "columns": True}
    assert header["settings"]["hidden_units"] == 8


@pytest.mark.parametrize(
    "x_err",
    [
        {"b": 0.0, "a": 0.1},
        pd.Series({"b": 0.0, "a": 0.1}),
        relative({"a": 0.1, "b": 0.0}),
        pd.DataFrame([[0.04, 0.01], [0.01, 0.02]], index=["a", "b"], columns=["a", "b"]),
    ],
)
def test_errors_by_name(x_err, tmp_path):
    X, y = table()
    rows = pd.DataFrame(X, columns=["a", "b"])
    model = EiVRegressor(x_err, **FAST, recipe="paper").fit(rows, y)
    model.save(tmp_path / "m.eiv")
    loaded = EiVRegressor.load(tmp_path / "m.eiv")
    assert_same(model, loaded, rows)
    np.testing.assert_array_equal(loaded.fit(rows, y).predict(rows), model.predict(rows))


def test_a_loaded_model_can_be_fitted_again(tmp_path):
    X, y = table()
    model = EiVRegressor(0.1, **FAST, recipe="paper").fit(X, y)
    model.save(tmp_path / "m.eiv")
    again = EiVRegressor.load(tmp_path / "m.eiv").fit(X, y)
    np.testing.assert_array_equal(model.predict(X), again.predict(X))


def test_settings_changed_after_the_fit(tmp_path):
    X, y = table()
    model = EiVRegressor(0.1, **FAST, recipe="paper").fit(X, y)
    model.set_params(hidden_units=32, dtype="float64", n_theta=6, n_networks=4)
    model.save(tmp_path / "m.eiv")
    loaded = EiVRegressor.load(tmp_path / "m.eiv")
    assert_same(model, loaded, X)
    assert loaded.get_params() == model.get_params()


def test_own_module_has_to_be_given_again(tmp_path):
    X, y = table(n_features=12)
    model = EiVRegressor(0.1, module=SmallConv, n_networks=2, **FAST, recipe="paper").fit(X, y)
    path = tmp_path / "m.eiv"
    model.save(path)
    assert read_header(path)["settings"]["module"] == "SmallConv"
    assert_same(model, EiVRegressor.load(path, module=SmallConv), X)
    with pytest.raises(ModelFileError, match=r"m.eiv.* a network of the user's own \(SmallConv\).*module=\.\.\."):
        EiVRegressor.load(path)
    with pytest.raises(ModelFileError, match=r"do not fit the network, first '0\.bias'"):
        EiVRegressor.load(
            path,
            module=lambda n_in, n_out: torch.nn.Sequential(
                torch.nn.Linear(n_in, 3), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(3, n_out)
            ),
        )
    EiVRegressor(**FAST, recipe="paper").fit(X, y).save(path)
    with pytest.raises(ModelFileError, match="without a module"):
        EiVRegressor.load(path, module=SmallConv)


class OwnPrior:
    def posterior(self, x, x_err):
        return ZetaNormal(x, x_err / 2)


class OwnNormal(NormalPrior):
    """Code of the user's, though it looks like ours."""


@pytest.mark.parametrize("prior", [OwnPrior(), OwnNormal(1.0)])
def test_own_prior_is_to_be_given_again(prior, tmp_path):
    X, y = table()
    model = EiVRegressor(0.1, input_prior=prior, **FAST, recipe="paper").fit(X, y)
    model.save(tmp_path / "m.eiv")
    with pytest.raises(ModelFileError, match=r"an input prior of the user's own \(Own\w+\), which the file does not"):
        EiVRegressor.load(tmp_path / "m.eiv")
    assert_same(model, EiVRegressor.load(tmp_path / "m.eiv", input_prior=prior), X)


@pytest.mark.parametrize("family", [name for name in FAMILIES if name != "bernoulli_dropout"])
def test_every_family_comes_back(family, tmp_path):
    X, y = table()
    settings = FAST | {"n_networks": 2, "epochs": 8}
    model = EiVRegressor(0.1, posterior=family, **settings, recipe="paper").fit(X, y)
    model.save(tmp_path / "m.eiv")
    assert_same(model, EiVRegressor.load(tmp_path / "m.eiv"), X)


def test_a_device_that_is_not_here(tmp_path):
    X, y = table()
    model = EiVRegressor(0.1, **FAST, recipe="paper").fit(X, y).set_params(device="cuda:7")
    model.save(tmp_path / "m.eiv")
    assert EiVRegressor.load(tmp_path / "m.eiv").device == "auto"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_from_gpu_to_cpu(tmp_path, monkeypatch):
    X, y = table()
    model = EiVRegressor(0.1, device="cuda", **FAST | {"n_theta": 2000}, recipe="paper").fit(X, y)
    model.save(tmp_path / "m.eiv")
    assert_same(model, EiVRegressor.load(tmp_path / "m.eiv"), X)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    loaded = EiVRegressor.load(tmp_path / "m.eiv")
    assert loaded.posterior_.parameters[0].device.type == "cpu"
    np.testing.assert_allclose(loaded.predict(X), model.predict(X), atol=0.05)


def test_what_is_known_of_the_training_rows(tmp_path):
    X, y = table()
    errors = np.abs(X) / 10
    model = EiVRegressor(**FAST, recipe="paper").fit(X, y, X_err=errors)
    np.testing.assert_array_equal(model.x_quantiles_, np.percentile(X, [0, 5, 50, 95, 100], axis=0))
    np.testing.assert_array_equal(model.x_err_median_, np.median(errors, axis=0))
    model.save(tmp_path / "m.eiv")
    loaded = EiVRegressor.load(tmp_path / "m.eiv")
    np.testing.assert_array_equal(loaded.x_quantiles_, model.x_quantiles_)
    np.testing.assert_array_equal(loaded.x_err_median_, model.x_err_median_)
    covariance = EiVRegressor([[0.04, 0.01], [0.01, 0.02]], **FAST, recipe="paper").fit(X, y)
    np.testing.assert_allclose(covariance.x_err_median_**2, [0.04, 0.02])


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("x_quantiles", lambda values: values[::-1].copy(), "not in order"),
        ("x_quantiles", lambda values: np.full_like(values, np.nan), "not in order"),
        ("x_err_median", lambda values: -values, "negative"),
        ("x_err_median", lambda values: values[:1], "shape"),
    ],
)
def test_wrong_summaries_are_refused(tmp_path, name, change, message):
    X, y = table()
    model = EiVRegressor(0.1, **FAST, recipe="paper").fit(X, y)
    record = replace(model.model_.record, **{name: change(getattr(model.model_.record, name))})
    save_model(replace(model.model_, record=record), tmp_path / "m.eiv")
    with pytest.raises(ModelFileError, match=message):
        EiVRegressor.load(tmp_path / "m.eiv")


def test_what_cannot_be_saved(tmp_path):
    X, y = table()
    with pytest.raises(NotFittedError):
        EiVRegressor(0.1, recipe="paper").save(tmp_path / "m.eiv")
    model = EiVRegressor(0.1, **FAST, recipe="paper").fit(X, y)
    with pytest.raises(ValueError, match="notes must hold"):
        model.save(tmp_path / "m.eiv", {"when": object()})
    with pytest.raises(ValueError, match="notes must hold"):
        model.save(tmp_path / "m.eiv", {"rmse": float("nan")})
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A small model file: its bytes."""
    X, y = table()
    path = tmp_path_factory.mktemp("small") / "m.eiv"
    model = EiVRegressor(
        0.1, input_prior="normal", **FAST | {"hidden_units": 2, "n_hidden": 1, "epochs": 1}, recipe="paper"
    )
    model.fit(X, y).save(path, {"target": "y"})
    return path.read_bytes()


def refused(tmp_path, content):
    """Both ways to read a file refuse it with the documented error, which names the file."""
    path = tmp_path / "bad.eiv"
    path.write_bytes(content)
    for read in (read_header, EiVRegressor.load):
        with pytest.raises(ModelFileError, match=r"bad\.eiv") as raised:
            read(path)
    return str(raised.value)


def test_the_file_is_a_safetensors_file(small, tmp_path):
    (tmp_path / "m.safetensors").write_bytes(small)
    with safetensors.safe_open(tmp_path / "m.safetensors", "np") as file:
        assert {"network/0.weight", "x/scale", "loss_curve"} <= set(file.keys())
        assert json.loads(file.metadata()["eiv"])["notes"] == {"target": "y"}


def test_every_flipped_byte_is_noticed(small, tmp_path):
    """One bit of each byte of the file in turn."""
    random, path = np.random.default_rng(0), tmp_path / "bad.eiv"
    for place in range(len(small)):
        content = bytearray(small)
        content[place] ^= 1 << random.integers(8)
        path.write_bytes(content)
        with pytest.raises(ModelFileError, match=r"bad\.eiv"):
            read_header(path)


def test_truncated_files_are_noticed(small, tmp_path):
    for length in (0, 1, 7, 8, 9, 40, 200, len(small) // 2, len(small) - 1):
        refused(tmp_path, small[:length])
    refused(tmp_path, small + b"\0")


def test_files_that_are_something_else(tmp_path, small):
    assert "a pickle, which is not opened because it can run" in refused(tmp_path, pickle.dumps({"a": 1}))
    with zipfile.ZipFile(tmp_path / "z.zip", "w") as archive:
        archive.writestr("a", "b")
    assert "zip archive" in refused(tmp_path, (tmp_path / "z.zip").read_bytes())
    assert "is not a model file of eiv." in refused(tmp_path, b"")
    assert "is not a model file of eiv." in refused(tmp_path, b"x,y\n1,2\n" * 30)
    assert "would have" in refused(tmp_path, (2**62).to_bytes(8, "little") + small[8:])
    assert "is not a model file" in refused(tmp_path, safetensors.serialize({}))
    with pytest.raises(FileNotFoundError, match=r"There is no file .*nowhere\.eiv"):
        EiVRegressor.load(tmp_path / "nowhere.eiv")
    with pytest.raises(ModelFileError, match="is not a file"):
        EiVRegressor.load(tmp_path)


def setting(name, value):
    return lambda inner, header: inner["settings"].update({name: value})


EMPTY = {"dtype": "F32", "shape": [10**15, 0], "data_offsets": [0, 0]}
LABELS = {"type": "list", "items": list(range(1000))}
TABLE_OF_ONE_NUMBER = {"type": "table", "values": 1.0, "index": LABELS, "columns": LABELS}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda inner, header: inner.update(format=FORMAT + 1), "format 2, written by eiv .* Update eiv"),
        (setting("fudge", 1), r"settings \['fudge'\] are not known"),
        (setting("n_hidden", 10**12), "n_hidden must be .* at most 100, got 1000000000000"),
        (setting("n_hidden", 7), "n_hidden is 7, but there are weights of 2 layers"),
        (setting("hidden_units", 10**5), "not have the sizes"),
        (setting("hidden_units", 10**30), "bad.eiv"),
        (setting("hidden_units", "many"), "hidden_units must be"),
        (setting("x_err", {"type": "os.system"}), "'os.system' is not a type of setting"),
        (setting("x_err", {"type": ["list"]}), "not a type of setting"),
        (setting("x_err", {"type": "array", "name": "network"}), "bad.eiv"),
        (setting("input_prior", {"type": "flat_prior", "extra": 1}), "flat_prior does not have the parts"),
        (setting("device", "tpu"), "bad.eiv"),
        (lambda inner, header: inner.update(n_networks=10**15), "bad.eiv"),
        (lambda inner, header: inner["features"].update(n=10**15), "bad.eiv"),
        (lambda inner, header: inner["features"].update(n=-1), "features n must be"),
        (lambda inner, header: inner["features"].update(names=["a"]), "it must hold 2 names"),
        (lambda inner, header: inner["training"].update(epochs=7), "loss_curve is"),
        (lambda inner, header: inner.update(seed="x"), "seed must be"),
        (lambda inner, header: inner.update(x_err=0.1), "x_err has the wrong shape"),
        (lambda inner, header: inner.update(input_prior=3), "no input prior"),
        (lambda inner, header: inner.pop("outputs") and None, "outputs"),
        (setting("n_theta", 10**12), "n_theta must be .* at most 100,000"),
        (setting("n_zeta", 10**12), "n_zeta must be .* at most 10,000"),
        (lambda inner, header: inner["changed_since_fit"].update(n_theta=10**12), "n_theta must be .* at most 100,000"),
        (lambda inner, header: inner["changed_since_fit"].update(n_theta="many"), "n_theta must be a whole number"),
        (
            lambda inner, header: inner["settings"].update(n_theta=10**5, n_zeta=10**4),
            "n_theta x n_zeta must be at most 1,000,000",
        ),
        (lambda inner, header: inner["settings"].pop("posterior") and None, "the header has no settings posterior"),
        (lambda inner, header: inner["settings"].pop("module"), "the header has no settings module"),
        (setting("x_err", TABLE_OF_ONE_NUMBER), "a table has a different number of values than of labels"),
        (
            setting("x_err", TABLE_OF_ONE_NUMBER | {"type": "column"}),
            "a table has a different number of values than of labels",
        ),
        (setting("posterior", "swag"), "no state of the posterior 'swag'"),
        (setting("posterior", "last_layer_laplace"), "no state of the posterior"),
        (lambda inner, header: inner["training"].update(first_loss="low"), "training first_loss must be a number"),
        (lambda inner, header: inner["outputs"].update(n=2), "bad.eiv"),
        (lambda inner, header: inner.update(x_err={"type": "list", "items": ["a", "b"]}), "x_err has the wrong shape"),
        (lambda inner, header: inner.update(input_prior={"type": "normal_prior", "std": [1, 2, 3], "mean": 0}), "bad"),
        (lambda inner, header: inner.update(input_prior={"type": "normal_prior", "std": -1, "mean": 0}), "above zero"),
        (lambda inner, header: header["y_noise"].update(shape=[10**18]), "bad.eiv"),
        (lambda inner, header: header.update(empty=EMPTY), "more than the file has"),
        (lambda inner, header: header["y_noise"].update(data_offsets=[0, 10**18]), "bad.eiv"),
        (lambda inner, header: header["y_noise"].update(dtype="BF16"), "bad.eiv"),
    ],
)
def test_forged_headers_are_refused(small, tmp_path, change, message):
    (tmp_path / "bad.eiv").write_bytes(forged(small, lambda inner, header: None))
    assert EiVRegressor.load(tmp_path / "bad.eiv").n_features_in_ == 2  # forging alone does not break it
    (tmp_path / "bad.eiv").write_bytes(forged(small, change))
    with pytest.raises(ModelFileError, match=message) as raised:
        EiVRegressor.load(tmp_path / "bad.eiv")
    assert "bad.eiv" in str(raised.value)


def test_the_shares_of_networks_come_back(tmp_path):
    X, y = table()
    model = EiVRegressor(0.1, **FAST, n_networks=2, recipe="paper").fit(X, y)
    equal = model.predict_distribution(X)
    model.save(tmp_path / "equal.eiv")
    assert "share" not in dict(header_lines(read_header(tmp_path / "equal.eiv")))["networks"]
    older = forged((tmp_path / "equal.eiv").read_bytes(), lambda inner, header: inner.pop("weights") and None)
    (tmp_path / "older.eiv").write_bytes(older)
    assert "share" not in dict(header_lines(read_header(tmp_path / "older.eiv")))["networks"]
    assert_same(model, EiVRegressor.load(tmp_path / "older.eiv"), X)
    model.model_ = replace(model.model_, weights=np.array([0.9, 0.1]))
    model.save(tmp_path / "m.eiv")
    assert dict(header_lines(read_header(tmp_path / "m.eiv")))["networks"].endswith("; their shares are 0.9, 0.1")
    loaded = EiVRegressor.load(tmp_path / "m.eiv")
    assert_same(model, loaded, X)
    assert not np.isclose(loaded.predict_distribution(X).mean, equal.mean).any()


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (None, "weights must be numbers"),
        ([1, "a"], "weights must be numbers"),
        ([0.5, 0.5], "weights must be 1 numbers from 0 to 1"),
        ([2.0], "weights must be 1 numbers from 0 to 1"),
        ([0.9], "add up to one"),
    ],
)
def test_forged_shares_are_refused(small, tmp_path, weights, message):
    (tmp_path / "bad.eiv").write_bytes(forged(small, lambda inner, header: inner.update(weights=weights)))
    with pytest.raises(ModelFileError, match=rf"bad\.eiv.*{message}"):
        EiVRegressor.load(tmp_path / "bad.eiv")


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("y_noise", [-1.0], "y_noise must not be negative"),
        ("y_noise", [np.nan], "y_noise must not be negative"),
        ("x/spread", [np.inf, 1.0], "x/spread must not be negative or infinite"),
        ("x/scale", [0.0, 1.0], "x/scale above zero"),
        ("y/shift", [np.nan], "y/shift must be finite"),
        ("y/scale", [np.inf], "y/scale above zero and finite"),
        ("likelihood/y_noise", [-1.0], "noise of its likelihood must be above zero"),
        ("likelihood/y_noise", [np.nan], "state of its likelihood must be finite"),
        ("x_err", [-0.1, 0.1], "x_err"),
        ("network/0.bias", [np.nan, 0.0], "some of its weights are not finite numbers"),
        ("network/0.bias", [np.inf, 0.0], "some of its weights are not finite numbers"),
        ("input_prior/covariances", [-1.0, 1.0], "MixturePrior"),
    ],
)
def test_numbers_that_no_fit_gives_are_refused(small, tmp_path, name, values, message):
    kind = np.float32 if name.startswith(("network/", "likelihood/")) else np.float64
    (tmp_path / "bad.eiv").write_bytes(altered(small, name, np.array(values, kind)))
    with pytest.raises(ModelFileError, match=message):
        EiVRegressor.load(tmp_path / "bad.eiv")


@pytest.mark.parametrize("family", [name for name in FAMILIES if name != "bernoulli_dropout"])
def test_states_of_other_shapes_are_refused(family, tmp_path):
    """What a family keeps has the shapes that its networks ask for, before a prediction is made with it."""
    X, y = table()
    settings = FAST | {"n_networks": 2, "hidden_units": 2, "n_hidden": 1}
    EiVRegressor(0.1, posterior=family, **settings, recipe="paper").fit(X, y).save(tmp_path / "m.eiv")
    whole = (tmp_path / "m.eiv").read_bytes()
    names = [name for name in json.loads(whole[8 : 8 + int.from_bytes(whole[:8], "little")]) if "posterior/" in name]
    assert bool(names) == (family != "gaussian_dropout")
    for name in names:

        def flatten(inner, header, name=name):
            shape = header[name]["shape"]
            header[name]["shape"] = [shape[0] * shape[1], *shape[2:]]

        (tmp_path / "bad.eiv").write_bytes(forged(whole, flatten))
        with pytest.raises(ModelFileError, match="state holds"):
            EiVRegressor.load(tmp_path / "bad.eiv")


def test_weights_of_another_type_are_told_apart(small, tmp_path):
    """A network of float64 has the shapes of one of float32."""
    (tmp_path / "bad.eiv").write_bytes(forged(small, setting("dtype", "float64")))
    words = r"first '0\.bias': the file has float32 of shape \(1, 2\), the network float64 of shape \(1, 2\)\."
    with pytest.raises(ModelFileError, match=words):
        EiVRegressor.load(tmp_path / "bad.eiv")


def test_states_that_are_no_numbers_are_refused(tmp_path):
    X, y = table()
    EiVRegressor(0.1, posterior="swag", **FAST, recipe="paper").fit(X, y).save(tmp_path / "m.eiv")
    whole = (tmp_path / "m.eiv").read_bytes()
    parts = json.loads(whole[8 : 8 + int.from_bytes(whole[:8], "little")])
    name = next(name for name in parts if name.startswith("posterior/spread"))
    begin, end = parts[name]["data_offsets"]
    (tmp_path / "bad.eiv").write_bytes(altered(whole, name, np.full((end - begin) // 4, np.nan, np.float32)))
    with pytest.raises(ModelFileError, match="some numbers of the posterior 'swag' are missing"):
        EiVRegressor.load(tmp_path / "bad.eiv")


def test_more_networks_than_there_are_weights(tmp_path):
    """They are counted before any is built, also where the module is the user's."""
    X, y = table(n_features=12)
    EiVRegressor(0.1, module=SmallConv, **FAST, recipe="paper").fit(X, y).save(tmp_path / "m.eiv")

    def more(inner, header):
        inner["n_networks"], inner["training"]["epochs"] = 3, 1
        header["loss_curve"]["shape"] = [1, 3]

    (tmp_path / "bad.eiv").write_bytes(forged((tmp_path / "m.eiv").read_bytes(), more))
    with pytest.raises(ModelFileError, match="it does not hold the weights of 3 networks"):
        EiVRegressor.load(tmp_path / "bad.eiv", module=lambda n_in, n_out: pytest.fail("a network was built"))


@pytest.mark.parametrize("header", ["[]", "3", "null", "{", '{"format": 1}', "[" * 100_000, '{"format": "1"}'])
def test_headers_that_are_no_mapping(small, tmp_path, header):
    length = int.from_bytes(small[:8], "little")
    outer = json.loads(small[8 : 8 + length])
    outer["__metadata__"] = {"sha256": "0" * 64, "eiv": header}
    text = json.dumps(outer, separators=(",", ":")).encode()
    whole = len(text).to_bytes(8, "little") + text + small[8 + length :]
    refused(tmp_path, whole.replace(b"0" * 64, hashlib.sha256(whole).hexdigest().encode(), 1))
