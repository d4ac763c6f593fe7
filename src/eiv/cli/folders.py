"""`eiv predict` of a folder: one table after another, on several workers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import typer

from eiv.cli.app import complain, console, errors, printable, show_warning
from eiv.cli.predicting import Job, predict_table
from eiv.io.files import check_folder, digest_of, sweep, write_whole

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


def predict_folder(job: Job, folder: Path, out: Path, force: bool, workers: tuple[str, int]) -> None:
    """Predict all tables of a folder whose predictions are not there yet. Exit status 1 where some failed."""
    from eiv.io.clusters import parallel_config  # noqa: PLC0415

    tables = tables_of(folder)
    outputs = {table: out / output_name(table.name) for table in tables}
    check_folder(out)
    out.mkdir(parents=True, exist_ok=True)
    _check_job(job, out, force)
    todo = [table for table in tables if force or not outputs[table].exists()]
    if len(todo) < len(tables):
        console.print(f"{len(tables) - len(todo):,} of {len(tables):,} tables have their predictions already.")
    backend, n_jobs = workers
    with parallel_config(backend, n_jobs):
        done = list(_in_parallel(job, [(table.resolve(), outputs[table].resolve()) for table in todo]))
    sweep(out)  # of workers that were killed
    failed = sorted((each for each in done if each.failure), key=lambda each: each.data)
    n_rows = sum(each.n_rows for each in done)
    if n_unlike := sum(each.n_unlike for each in done):
        show_warning(f"{n_unlike:,} of {n_rows:,} rows are unlike the training rows.")
    n_empty = sum(each.n_empty for each in done)
    left = f", {n_empty:,} of them without a prediction" if n_empty else ""
    console.print(printable(f"{out}: {len(done) - len(failed):,} tables, {n_rows:,} rows{left}"), highlight=False)
    lost = len(todo) - len(done)
    if failed:
        errors.print(f"{len(failed):,} of {len(todo):,} tables failed:", highlight=False)
        for each in failed:
            complain(each.failure)
    if failed or lost:
        raise typer.Exit(1)


def tables_of(folder: Path) -> list[Path]:
    """The tables in a folder, by their endings, in the order of their names."""
    found = sorted(path for path in folder.iterdir() if path.name.lower().endswith(_READ) and path.is_file())
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


def _in_parallel(job: Job, pairs: Sequence[tuple[Path, Path]]) -> Iterator[Done]:
    """What came of each table, as it is done; a table in a worker that was killed is missing, with a sentence."""
    import joblib  # noqa: PLC0415  (an extra)
    from joblib.externals.loky.process_executor import TerminatedWorkerError  # noqa: PLC0415

    far = replace(job, model_file=job.model_file.resolve())
    with errors.status("predicting") as status:
        tasks = [joblib.delayed(predict_one)(far, *pair) for pair in pairs]
        try:
            for number, done in enumerate(_results(tasks), 1):
                status.update(f"predicting: {number:,} of {len(pairs):,} tables")
                yield done
        except TerminatedWorkerError:
            complain(
                "A worker was killed, by a signal or for lack of memory. Finished tables are kept, and the same "
                "command goes on with the others."
            )


def predict_one(job: Job, data: Path, out: Path) -> Done:
    """Predict one table in a worker, on one core; an error that the table or the machine has becomes a sentence."""
    from eiv.io.clusters import one_thread  # noqa: PLC0415  (slow to import)

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


def _results(tasks: Sequence[object]) -> Iterator[Done]:
    import joblib  # noqa: PLC0415  (an extra)
    from joblib.parallel import get_active_backend  # noqa: PLC0415

    backend, _ = get_active_backend()
    kind = "generator_unordered" if backend.supports_return_generator else "list"
    yield from joblib.Parallel(return_as=kind)(tasks)
