"""A small table for the commands, options of a quick fit, and what the commands show, read back."""

import re
from pathlib import Path

import numpy as np
import pandas as pd

FIT = ("--target", "mass", "--drop", "id", "--drop", "batch", "--x-err", "length=0.1", "--x-err", "temp=temp_err")
QUICK = ("--recipe", "paper", "--set", "epochs=3", "--set", "hidden_units=8", "--set", "n_theta=10")

BAD_TABLES = {
    "empty.csv": "",
    "header.csv": "id,length,temp,temp_err,batch,mass\n",
    "one.csv": "id,length,temp,temp_err,batch,mass\na,1,2,0.1,1,2\n",
    "text.csv": "id,length,temp,temp_err,batch,mass\na,1,2,0.1,1,2\nb,long,2,0.1,1,2\n",
    "double.csv": "id,length,length,mass\n1,2,3,4\n",
    "negative.csv": "id,length,temp,temp_err,batch,mass\na,1,2,0.1,1,2\nb,1,2,-0.1,1,2\n",
    "missing.csv": "id,length,temp,temp_err,batch,mass\na,1,2,0.1,1,2\nb,1,,0.1,1,inf\n",
    "narrow.csv": "id,length,temp,mass\na,1,2,3\n",
    "ragged.csv": "id,length,temp,temp_err,batch,mass\na,1,2,0.1,1,2\nb,1\n",
    "mean.csv": "length,temp,temp_err,mean\n1,2,0.1,3\n",
    "far.csv": "length,temp,temp_err\n1,2,0.1\n1e300,2,0.1\n",
    "bad.toml": "target = [",
    "odd.toml": "taget = 'mass'",
    "type.toml": "target = 3",
    "fit.toml": "seed = 1",
}


def rows(n=80):
    random = np.random.default_rng(0)
    zeta = random.uniform(-1, 1, (n, 2))
    return pd.DataFrame(
        {
            "id": [f"s, {i}" for i in range(n)],
            "length": (zeta[:, 0] + 0.1 * random.standard_normal(n)).round(4),
            "temp": (20 + 5 * zeta[:, 1] + 0.3 * random.standard_normal(n)).round(3),
            "temp_err": random.uniform(0.1, 0.5, n).round(3),
            "batch": random.integers(0, 6, n),
            "mass": (zeta.sum(1) + 0.05 * random.standard_normal(n)).round(4),
        }
    )


def large(times):
    """A table of that many thousand rows."""
    head, *lines = rows(1000).to_csv(index=False).splitlines(keepends=True)
    Path("large.csv").write_text(head + times * "".join(lines))


def numbers_after(out, words):
    """The numbers in the line of a table that begins with these words."""
    (line,) = [line for line in out.splitlines() if line.startswith(f"│ {words} ")]
    return [float(text) for text in re.findall(r"-?\d+\.?\d*(?:e[+-]\d+)?", line.split("│", 2)[2])]


def shown_table(text, caption):
    """The cells of the table of a page, by the first one of each row."""
    (body,) = re.findall(rf"<caption>{caption}.*?</caption>.*?<tbody>(.*?)</tbody>", text, re.S)
    cells = [re.findall(r"<td[^>]*>(.*?)</td>", row, re.S) for row in re.findall(r"<tr>(.*?)</tr>", body, re.S)]
    return {row[0]: row[1:] for row in cells}


def value(text):
    return float(text.replace("\u00a0%", "").replace(",", ""))
