"""`eiv predict` of a folder: one table after another, on several workers."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from eiv.cli.app import complain, console, errors, printable, show_warning
from eiv.cli.predicting import Job, predict_table
from eiv.io.files import check_folder, digest_of, sweep, write_whole

if TYPE_CHECKING:
    from eiv.io.tasks import Workers

_TRIES = 3  # of a table whose worker is killed
_JOB = "predict.json"
_WRITTEN = (".csv", ".csv.gz", ".parquet")
_READ = (*_WRITTEN, ".tsv", ".txt", ".dat", ".pq", ".xlsx", ".fits", ".fit", ".ecsv", ".vot", ".xml")


@dataclass(frozen=True)
class Done:
    """What came of one table: how many rows were predicted, or why none was."""

    data: Path
    n_rows: int = 0
    n_empty: int = 0
    n_unlike: int = 0
    failure: str = ""


def predict_folder(job: Job, folder: Path, out: Path, force: bool, engine: tuple[str, int]) -> None:
    """Predict all tables of a folder whose predictions are not there yet. Exit status 1 where some failed."""
    from eiv.io.tasks import workers  # noqa: PLC0415

    outputs = _outputs(folder, out, job.model_file)
    check_folder(out)
    out.mkdir(parents=True, exist_ok=True)
    _check_job(job, out, force)
    todo = [table for table in outputs if force or not outputs[table].exists()]
    if len(todo) < len(outputs):
        console.print(
            f"{len(outputs) - len(todo):,} of {len(outputs):,} tables have their predictions already.", highlight=False
        )
    pairs = [(_full(table), _full(outputs[table])) for table in todo]
    try:
        with workers(*engine) as found, errors.status("predicting") as status:
            done = []
            for each in _predicted(job, pairs, found):
                done.append(each)
                status.update(f"predicting: {len(done):,} of {len(todo):,} tables")
    finally:
        sweep(out)  # of workers that were killed
    _show(out, done)


def _show(out: Path, done: Sequence[Done]) -> None:
    """Say what came of all tables, with a list of those that failed."""
    failed = sorted((each for each in done if each.failure), key=lambda each: each.data)
    n_rows = sum(each.n_rows for each in done)
    if n_unlike := sum(each.n_unlike for each in done):
        show_warning(f"{n_unlike:,} of {n_rows:,} rows are unlike the training rows.")
    n_empty = sum(each.n_empty for each in done)
    left = f", {n_empty:,} of them without a prediction" if n_empty else ""
    console.print(printable(f"{out}: {len(done) - len(failed):,} tables, {n_rows:,} rows{left}"), highlight=False)
    if failed:
        errors.print(f"{len(failed):,} of {len(done):,} tables failed:", highlight=False)
        for each in failed:
            complain(each.failure)
        raise typer.Exit(1)


def _outputs(folder: Path, out: Path, model_file: Path) -> dict[Path, Path]:
    """The file of the predictions of each table. A ValueError where it is that of another one, or an input."""
    outputs: dict[Path, Path] = {}
    table_of: dict[Path, Path] = {}
    for table in tables_of(folder):
        path = outputs[table] = out / output_name(table.name)
        other = table_of.setdefault(path, table)
        if other != table:
            raise ValueError(
                f"The predictions of {other} and of {table} would both be {path}; rename one of the tables."
            )
    if out.exists() and out.samefile(folder):
        raise ValueError(f"--out: {out} is the folder of the inputs; choose another for their predictions.")
    inputs = {_place(path): path for path in (*outputs, model_file) if path.exists()}
    for path in outputs.values():
        if path.exists() and _place(path) in inputs:
            raise ValueError(f"--out: {path} is the input {inputs[_place(path)]}; choose another folder.")
    return outputs


def _place(path: Path) -> tuple[int, int]:
    """Numbers that two names of one file share."""
    status = path.stat()
    return status.st_dev, status.st_ino


def _full(path: Path) -> Path:
    """The path for a worker, which may run in another folder. Links keep their names, for messages."""
    return Path(os.path.abspath(path))


def tables_of(folder: Path) -> list[Path]:
    """The tables in a folder, by their endings, in the order of their names; links that lead nowhere are among them."""
    found = sorted(
        path for path in folder.iterdir() if path.name.lower().endswith(_READ) and (path.is_file() or not path.exists())
    )
    if not found:
        raise ValueError(f"{folder} holds no tables; known endings: {', '.join(_READ)}.")
    return found


def output_name(name: str) -> str:
    """The name of the predictions of a table: its own, where such a file can be written, else with `.parquet`."""
    return name if name.lower().endswith(_WRITTEN) else f"{name}.parquet"


def _check_job(job: Job, out: Path, force: bool) -> None:
    """Note in the folder what its predictions are of; refuse to mix them with those of another model or options."""
    with job.model_file.open("rb"):
        pass
    identity = {name: value for name, value in asdict(job).items() if name != "model_file"}
    words = json.dumps({"model": digest_of(job.model_file)} | identity, sort_keys=True, default=str)
    path = out / _JOB
    if path.exists() and path.read_text(encoding="utf-8") != words and not force:
        raise ValueError(
            f"{out} holds predictions of another model or with other options; choose another folder, or replace them "
            "with --force."
        )
    write_whole(path, words)


def _predicted(job: Job, pairs: Sequence[tuple[Path, Path]], workers: Workers) -> Iterator[Done]:
    """What came of each table, as it is done.

    A table whose worker was killed may not be the reason for that: another table in a worker beside it may have used up
    the memory. It is therefore tried again when the others are done, by itself.
    """
    from eiv.io.tasks import Lost  # noqa: PLC0415

    work = partial(predict_one, replace(job, model_file=_full(job.model_file)))
    lost = []
    for found in workers.results(work, pairs):
        if isinstance(found, Lost):
            lost.append(found.item)
        else:
            yield found
    if lost:
        show_warning(
            f"{len(lost):,} of {len(pairs):,} tables lost their worker, which was killed by a signal or for lack of "
            "memory. They are tried again, one after the other."
        )
    for pair in lost:
        tries = (next(iter(workers.results(work, [pair]))) for _ in range(_TRIES - 1))
        yield next((found for found in tries if not isinstance(found, Lost)), _given_up(pair[0]))


def _given_up(data: Path) -> Done:
    return Done(data, failure=f"{data}: its worker was killed {_TRIES} times, by a signal or for lack of memory.")


def predict_one(job: Job, pair: tuple[Path, Path]) -> Done:
    """Predict a table into a file, in a worker, on one core; errors of the table or the machine become a sentence."""
    from eiv.io.clusters import one_thread  # noqa: PLC0415  (slow to import)

    data, out = pair
    try:
        with one_thread():
            found = predict_table(job, data, out, lambda _: None)
    except (ValueError, TypeError, ArithmeticError, OSError, ImportError, MemoryError) as error:
        return Done(data, failure=_sentence(data, error))
    return Done(data, found.n_rows, found.n_empty, found.n_unlike)


def _sentence(data: Path, error: BaseException) -> str:
    """Why a table failed, with its name."""
    if isinstance(error, MemoryError):
        return f"{data}: there is not enough memory for it."
    if isinstance(error, OSError) and error.filename is not None:  # an error of the system has no sentence of its own
        error = OSError(f"{error.filename}: {error.strerror}.")
    return str(error) if str(data) in str(error) else f"{data}: {error}"
