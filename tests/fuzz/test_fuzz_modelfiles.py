"""Model files damaged and forged: a model that predicts, or a `ModelFileError` that names the file, nothing else."""

import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume
from hypothesis import strategies as st
from searching import edited, edits, refusal, search, search_long

from eiv import EiVRegressor, MixturePrior, ModelFileError
from eiv.io.modelfile import read_header
from eiv.io.modelfile.container import complaints
from eiv.report.provenance import header_lines
from forging import forged

FOLDER = tempfile.TemporaryDirectory()
X = np.random.default_rng(0).normal(size=(30, 2))
Y = X.sum(1)
MODELS = {
    "learned prior": {"x_err": 0.1, "input_prior": "normal"},
    "mixture": {"x_err": [[0.04, 0.01], [0.01, 0.02]], "input_prior": MixturePrior([1], [[0.0, 0.0]], [[1.0, 1.0]])},
    "mean field": {"x_err": [0.1, 0.0], "posterior": "mean_field"},
    "swag": {"posterior": "swag", "epochs": 4},
    "laplace": {"x_err": 0.1, "posterior": "last_layer_laplace", "dtype": "float64"},
    "linearised": {"x_err": 0.1, "posterior": "linearised_laplace"},
    "ensemble": {"posterior": "ensemble", "n_networks": 2},
    "concrete": {"posterior": "concrete_dropout"},
}


def contents():
    """The bytes of small models of many kinds."""
    small = {"hidden_units": 2, "n_hidden": 1, "epochs": 1, "n_theta": 4, "random_state": 0}
    notes = {"target": "y", "x_err": {"a": {"kind": "absolute", "number": 0.1}}, "holdout": {"rmse": 1.0}}
    for settings in MODELS.values():
        path = Path(FOLDER.name) / "good.eiv"
        EiVRegressor(**small | settings, recipe="paper").fit(X, Y).save(path, notes)
        yield path.read_bytes()


GOOD = list(contents())


def check(content):
    """Read a file as `eiv info` and `eiv predict` do."""
    path = Path(FOLDER.name) / "bad.eiv"
    path.write_bytes(content)
    refused = refusal(ModelFileError, lambda: describe(path))
    if refused is not None:
        assert path.name in refused
        return
    refused = refusal(ModelFileError, lambda: EiVRegressor.load(path))
    if refused is not None:
        assert path.name in refused
        return
    refused = refusal(ValueError, lambda: predict(path))
    assert refused is None or "is not a finite number" in refused or "n_zeta must be at least 2" in refused, refused


def describe(path):
    header = read_header(path)
    with complaints(path):
        header_lines(header)


def predict(path):
    model = EiVRegressor.load(path)
    mean = model.predict(X[:2], X_err=0.1 if model.x_err_ is None else None)
    assert np.isfinite(mean).all()


def check_damaged(content, changes):
    """Without the digest made right, every change is noticed."""
    damaged = edited(content, changes)
    assume(damaged != content)
    path = Path(FOLDER.name) / "bad.eiv"
    path.write_bytes(damaged)
    for read in (read_header, EiVRegressor.load):
        with pytest.raises(ModelFileError, match=r"bad\.eiv"):
            read(path)


WORDS = ["type", "name", "items", "value", "values", "keys", "index", "columns", "std", "mean", "share", "weights"]
KINDS = ["array", "list", "tuple", "mapping", "table", "column", "float", "flat_prior", "normal_prior", "relative"]
NAMES = ["x_err", "y_noise", "loss_curve", "network/0.weight", "settings/x_err"]
plain = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([-1, 0, 1, 2, 3, 100, 2**31, 2**62, 10**30]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([*KINDS, *NAMES, "inf", "nan", "swag", "cuda:0", "mixture"]),
    st.text(max_size=5),
)
values = st.recursive(
    plain,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(WORDS), inner, max_size=3)
        | st.fixed_dictionaries({"type": st.sampled_from(KINDS)}, optional=dict.fromkeys(WORDS[1:], inner))
    ),
    max_leaves=6,
)


def check_forged(content, data):
    """Any values of the header replaced, removed or added, or an array filled otherwise, and the digest made right."""

    def change(inner, header):
        for _ in range(data.draw(st.integers(1, 2))):
            replace(header if data.draw(st.integers(0, 3)) == 0 else inner, data)

    try:
        content = forged(filled(content, data), change)
    except (TypeError, KeyError, ValueError):  # the metadata themselves are gone
        return
    check(content)


def replace(place, data):
    """Put another value somewhere inside a mapping."""
    while True:
        if not place:
            return
        key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        if not isinstance(place[key], dict | list) or data.draw(st.booleans()):
            break
        place = place[key]
    how = data.draw(st.sampled_from(["set", "set", "set", "remove", "add", "move"]))
    if how == "set":
        place[key] = data.draw(values)
    elif how == "remove":
        del place[key]
    elif how == "add" and isinstance(place, dict):
        place[data.draw(st.text(max_size=4) | st.sampled_from(WORDS))] = data.draw(values)
    elif isinstance(place, dict):
        place[data.draw(st.sampled_from(sorted(place)))] = place[key]


def filled(content, data):
    """The file with some of its numbers changed; the digest is no longer right."""
    if data.draw(st.booleans()):
        return content
    start = 8 + int.from_bytes(content[:8], "little")
    number = data.draw(st.floats() | st.sampled_from([0.0, -1.0, np.inf, np.nan, 1e300]))
    place = start + 8 * data.draw(st.integers(0, (len(content) - start) // 8 - 1))
    return content[:place] + np.float64(number).tobytes() + content[place + 8 :]


FUZZERS = {
    "damaged": ({"content": st.sampled_from(GOOD), "changes": edits}, check_damaged),
    "forged": ({"content": st.sampled_from(GOOD), "data": st.data()}, check_forged),
    "bytes": ({"content": st.binary(max_size=300) | st.just(b"\x80\x04.")}, check),
}


@pytest.mark.parametrize("kind", FUZZERS)
def test_a_model_or_a_model_file_error(kind):
    search(*FUZZERS[kind], max_examples=150)


@pytest.mark.slow
def test_a_model_or_a_model_file_error_for_long():
    n_examples = search_long(FUZZERS)
    print(f"{n_examples:,} examples")
    assert n_examples > 0


def test_the_unharmed_files_load():
    """What the fuzzers start from is read, so that they reach what comes after the digest."""
    for content in GOOD:
        (Path(FOLDER.name) / "good.eiv").write_bytes(forged(content, lambda inner, header: None))
        assert EiVRegressor.load(Path(FOLDER.name) / "good.eiv").n_features_in_ == 2
        assert json.dumps(read_header(Path(FOLDER.name) / "good.eiv"))
