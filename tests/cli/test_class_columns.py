"""A target of classes: what `eiv fit` understood, probabilities, explanations and the page of such a model."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from commands import QUICK, rows
from eiv import EiVClassifier
from eiv.cli.classes import may_be_classes
from eiv.io.modelfile import read_header
from eiv.report.words import percent

FIT = ("--drop", "id", "--drop", "batch", "--drop", "mass", "--x-err", "length=0.1", "--x-err", "temp=temp_err")


def with_classes(name="kind", labels=("small", "large")):
    table = rows()
    table[name] = np.asarray(labels)[(table["mass"] > 0).astype(int)]
    return table


def test_a_column_of_text_is_one_of_classes(folder, run):
    with_classes().to_csv("c.csv", index=False)
    status, out, _ = run("fit", "c.csv", "--target", "kind", *FIT, *QUICK, "-o", "c.eiv")
    assert status == 0
    assert "2 classes: large" in out
    for words in ("most probable", "log-loss", "epistemic", "aleatoric", "classes that overlap"):
        assert words in out
    header = read_header("c.eiv")
    assert header["outputs"]["classes"]["values"] == ["large", "small"]
    assert set(header["notes"]["holdout"]) >= {"rows", "accuracy", "log_loss"}
    status, out, _ = run("info", "c.eiv")
    assert status == 0
    assert "large, small" in out
    assert "noise of the target" not in out
    status, out, _ = run("predict", "c.eiv", "c.csv", "-o", "p.csv")
    assert status == 0
    found = pd.read_csv("p.csv")
    new = ["P(large)", "P(small)", "predicted", "label", "aleatoric", "epistemic", "likeness", "unlike"]
    assert list(found)[-8:] == new
    model, table = EiVClassifier.load("c.eiv"), rows()
    p = model.predict_distribution(table[["length", "temp"]], X_err=np.column_stack([[0.1] * 80, table["temp_err"]]))
    np.testing.assert_allclose(found[["P(large)", "P(small)"]], p.probabilities, atol=1e-9)
    np.testing.assert_allclose(found[["label", "aleatoric", "epistemic"]].sum(axis=1), p.entropy, atol=1e-9)
    assert found["predicted"].tolist() == p.predicted.tolist()


def test_numbers_that_may_be_classes():
    few = np.arange(100.0) % 10
    assert may_be_classes(few) == "The target holds 10 different whole numbers; --classes would fit classes."
    for numbers in (few[:99], few + 0.5, np.arange(100.0), np.arange(110.0) % 11):
        assert may_be_classes(numbers) == ""


def test_whole_numbers_are_classes_where_it_is_asked_for(folder, run):
    with_classes("code", (3, 7)).to_csv("c.csv", index=False)
    status, out, _ = run("fit", "c.csv", "--target", "code", *FIT, *QUICK, "-o", "n.eiv")
    assert status == 0
    assert "The target holds 2 different whole numbers; --classes would fit classes." in out
    status, out, _ = run("fit", "c.csv", "--target", "code", "--classes", *FIT, *QUICK, "-o", "c.eiv")
    assert status == 0
    assert "would fit" not in out
    assert "2 classes: 3 (" in out
    assert EiVClassifier.load("c.eiv").classes_.tolist() == [3, 7]
    status, _, err = run("fit", "c.csv", "--target", "temp", "--classes", "--drop", "id", *QUICK, "-o", "d.eiv")
    assert status == 2
    assert "'temp' holds numbers with decimals" in err


@pytest.mark.parametrize("word", ["NA", "nan", "None"])
def test_words_for_missing_values_are_no_class(folder, run, word):
    table = with_classes()
    table.loc[[4, 7], "kind"] = word
    table.to_csv("c.csv", index=False)
    status, _, err = run("fit", "c.csv", "--target", "kind", *FIT, *QUICK, "-o", "c.eiv")
    assert status == 2
    assert "2 missing" in err
    status, out, _ = run("fit", "c.csv", "--target", "kind", *FIT, *QUICK, "--drop-missing", "-o", "c.eiv")
    assert status == 0
    assert "2 classes: large" in out


def test_rare_classes_are_learned_from_and_single_rows_refused(folder, run):
    """Two or three rows of a class must not lose so many to the held-out rows that one is left."""
    for seed, n_rare in enumerate([2, 3, 3]):
        table = with_classes()
        table.loc[: n_rare - 1, "kind"] = "odd"
        table.to_csv("c.csv", index=False)
        options = (*FIT, *QUICK, "--seed", str(seed), "--holdout", "0.5", "--no-refit", "--force", "-o", "c.eiv")
        assert run("fit", "c.csv", "--target", "kind", *options)[0] == 0
        assert EiVClassifier.load("c.eiv").classes_.tolist() == ["large", "odd", "small"]
    table.loc[1:2, "kind"] = "small"
    table.to_csv("c.csv", index=False)
    status, _, err = run("fit", "c.csv", "--target", "kind", *options)
    assert status == 2
    assert "one row have: 'odd'" in " ".join(err.split())


def test_truth_values_and_gaps_of_a_parquet_table(folder, run):
    table = with_classes("is_large", (False, True)).astype({"is_large": object})
    table.loc[4, "is_large"] = None
    table.to_parquet("c.parquet")
    status, _, err = run("fit", "c.parquet", "--target", "is_large", *FIT, *QUICK, "-o", "c.eiv")
    assert status == 2
    assert "1 of 80 rows hold missing or infinite values (column 'is_large': 1 missing" in err
    status, out, _ = run("fit", "c.parquet", "--target", "is_large", *FIT, *QUICK, "--drop-missing", "-o", "c.eiv")
    assert status == 0
    assert "2 classes: False" in out
    assert run("predict", "c.eiv", "c.parquet", "-o", "p.parquet")[0] == 0
    assert set(pd.read_parquet("p.parquet")["predicted"]) <= {False, True}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--y-err", "0.1"), "'kind' holds classes, which have no error bars"),
        (("--set", "y_noise=0.1"), "'y_noise' is not a setting of a model of classes"),
        (("--set", "network=cosine"), "not for classes"),
    ],
)
def test_what_has_no_meaning_for_classes(folder, run, arguments, words):
    with_classes().to_csv("c.csv", index=False)
    status, _, err = run("fit", "c.csv", "--target", "kind", *FIT, *QUICK, *arguments, "-o", "c.eiv")
    assert status == 2
    assert words in " ".join(err.split())


def test_one_class_and_words_among_numbers_are_refused(folder, run):
    with_classes(labels=("same", "same")).to_csv("one.csv", index=False)
    status, _, err = run("fit", "one.csv", "--target", "kind", *FIT, *QUICK, "-o", "c.eiv")
    assert status == 2
    assert "y has one class only" in err
    with_classes(labels=("12", "large")).to_csv("mixed.csv", index=False)
    status, _, err = run("fit", "mixed.csv", "--target", "kind", *FIT, *QUICK, "-o", "c.eiv")
    assert status == 2
    assert "large" in err


@pytest.fixture
def classes_model(folder, run):
    with_classes().to_csv("c.csv", index=False)
    assert run("fit", "c.csv", "--target", "kind", *FIT, *QUICK, "-o", "c.eiv")[0] == 0
    return "c.eiv"


def test_a_row_is_explained(classes_model, run):
    status, out, _ = run("explain", classes_model, "c.csv", "--row", "3", "-o", "e.png")
    assert status == 0
    words = " ".join(out.replace("│", " ").split())
    for expected in ("Prediction of kind", "probability", "large 0.", "small 0.", "What leaves the class open", "nats"):
        assert expected in words
    p = EiVClassifier.load(classes_model).predict_distribution(
        rows()[["length", "temp"]][2:3], X_err=[[0.1, rows()["temp_err"][2]]], budget=True
    )
    for name, part in p.budget().iloc[0].items():
        if name in ("length", "temp"):
            assert re.search(rf"{name} [-0-9.]+\s?% {part:.4f}", words.replace("\u00a0", " "))
    assert f"entropy 100.0 % {p.entropy[0]:.4f}" in words.replace("\u00a0", " ")
    assert Path("e.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.usefixtures("unrendered")
def test_the_page_of_a_model_of_classes(classes_model, run):
    assert run("report", classes_model, "c.csv", "-o", "c.html")[0] == 0
    page = Path("c.html").read_text()
    for words in ("kind: large and small", "Probabilities along each input", "Calibration", "Confusions", "log-loss"):
        assert words in page
    p = EiVClassifier.load(classes_model).predict(
        rows()[["length", "temp"]], X_err=np.column_stack([[0.1] * 80, rows()["temp_err"]])
    )
    right = np.mean(p == with_classes()["kind"])
    assert f"right for {percent(right)} of 80 rows" in page
    assert run("report", classes_model, "-o", "d.html")[0] == 0
    assert "Confusions" not in Path("d.html").read_text()
    rows().to_csv("n.csv", index=False)
    assert run("report", classes_model, "n.csv", "-o", "e.html")[0] == 0
    assert "holds no classes, so the page has no calibration" in Path("e.html").read_text()


def test_classes_that_the_fit_has_not_seen_are_refused(classes_model, run):
    with_classes(labels=("small", "huge")).to_csv("u.csv", index=False)
    status, _, err = run("report", classes_model, "u.csv", "-o", "u.html")
    assert status == 2
    assert "holds 'huge', a class that the fit has not seen; it has seen large, small" in " ".join(err.split())


def test_errors_of_labels_and_intervals_have_no_meaning_for_classes(classes_model, run):
    status, _, err = run("predict", classes_model, "c.csv", "--y-err", "0.1", "-o", "p.csv")
    assert status == 2
    assert "have no error bars" in err
    status, _, err = run("predict", classes_model, "c.csv", "--of", "label", "-o", "p.csv")
    assert status == 2
    assert "--of label: c.eiv predicts classes, which have probabilities and no intervals" in " ".join(err.split())


def test_a_column_of_identifiers_is_refused(folder, run):
    rows().to_csv("d.csv", index=False)
    status, _, err = run("fit", "d.csv", "--target", "id", "--drop", "batch", *QUICK, "-o", "i.eiv")
    assert status == 2
    assert "80 different words in 80 rows" in " ".join(err.split())
