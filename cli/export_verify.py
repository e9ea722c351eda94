"""The command `amqp-server export verify`: checks that an output is complete."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click
import orjson

from appendlog.spark.errors import OutputError, QueueNotFoundError
from appendlog.spark.exporting.checking.faults import Fault
from appendlog.spark.exporting.checking.log_comparison import Comparison, compare_with_log
from appendlog.spark.exporting.checking.output_queues import exported_queues
from appendlog.spark.exporting.checking.table_verify import verify_table
from appendlog.spark.exporting.checking.verify import OnChecked, Proof, verify_queue
from appendlog.spark.exporting.committing.forgetting import forget_files
from appendlog.spark.exporting.committing.manifest import ListedFile
from appendlog.spark.exporting.committing.manifests import Manifests
from appendlog.spark.exporting.files.quarantine import CORRUPT_FOLDER
from appendlog.spark.exporting.stores.opening import open_store
from appendlog.spark.exporting.stores.store import OutputStore
from appendlog.spark.exporting.tables.table_kinds import open_table, queues_in
from appendlog.spark.objects.store_options import StoreOptions
from appendlog.spark.planning.queues import find_queue
from appendlog.spark.planning.ranges import join_ranges, offsets_in
from cli.data_directory import HELP
from cli.display import shown, shown_bytes
from cli.exit_codes import EXIT_CORRUPT, EXIT_DATA_LOSS
from cli.export_output import output_options, output_refusals, shown_ranges
from cli.store_options import reach_stores
from metadata.name_texts import escaped_text

FAULTS_SHOWN: Final = 20


@click.command(
    context_settings=HELP,
    epilog=(
        "Examples: amqp-server export verify --out ./lake; ... --queue orders --deep "
        "--storage-path ./data. Exit codes: 0 complete, 4 rows are missing, 5 damage, "
        "2 refused, 1 anything else."
    ),
)
@output_options
@click.option("--deep", "is_deep", is_flag=True, help="Also read every offset.")
@click.option(
    "--forget-damaged",
    "forgets",
    is_flag=True,
    help="Drop damaged and lost files, so that the next export writes their rows again.",
)
@click.option(
    "--storage-path",
    type=click.Path(path_type=Path),
    help="Data directory, to compare also with the log; row by row with --deep.",
)
def verify(
    out: str,
    queue: str | None,
    storage_path: Path | None,
    store_options: tuple[str, ...],
    *,
    as_json: bool,
    is_deep: bool,
    forgets: bool,
) -> int:
    """Check that an output is complete, and that every file is as it was written.

    Rows, and the offsets known to be missing in the log, must add up to the range of offsets. No
    offset may be there twice. Every file must have the bytes that its task wrote. Of a Delta or
    Iceberg table, the rows are counted and compared with the notes of each export.
    """
    worst = 0
    with output_refusals():
        reached_by = reach_stores(store_options, out=out, storage_path=storage_path)
        store = open_store(out, reached_by.as_dict())
        for proof, manifests in _proofs(store, queue, is_deep=is_deep, forgets=forgets):
            compared = _compare(store, proof, storage_path, reached_by) if storage_path else None
            faults = (*proof.faults, *(compared.faults if compared else ()))
            forgotten = _forget(manifests, faults) if forgets and manifests else ()
            _write(proof, compared, faults, forgotten, as_json=as_json)
            worst = _worst(worst, faults)
    return worst


def _compare(
    store: OutputStore, proof: Proof, storage_path: Path, reached_by: StoreOptions
) -> Comparison:
    try:
        log = find_queue(storage_path, proof.vhost, proof.queue, reached_by)
    except QueueNotFoundError as error:
        return Comparison(0, 0, 0, (), str(error))
    # Row by row only for files: the files of a table may hold several queues.
    to_compare = replace(proof, is_deep=proof.is_deep and bool(proof.files))
    return compare_with_log(store, to_compare, log)


def _forget(manifests: Manifests, faults: tuple[Fault, ...]) -> tuple[ListedFile, ...]:
    return forget_files(
        manifests, {fault.path for fault in faults if fault.path}, datetime.now(UTC)
    )


def _proofs(
    store: OutputStore, queue: str | None, *, is_deep: bool, forgets: bool
) -> Iterator[tuple[Proof, Manifests | None]]:
    if table := open_table(store):
        if forgets:
            raise OutputError(
                f"{store.url}: --forget-damaged is for files, a table only goes forward"
            )
        states = queues_in(table, queue)
        with _progress(store.url) as on_checked:
            proofs = verify_table(store, table, states, is_deep=is_deep, on_checked=on_checked)
        yield from ((proof, None) for proof in proofs)
        return
    for manifests in exported_queues(store, queue):
        with _progress(manifests.folder) as on_checked:
            proof = verify_queue(manifests, is_deep=is_deep, on_checked=on_checked)
        yield proof, manifests


def _worst(worst: int, faults: tuple[Fault, ...]) -> int:
    if worst == EXIT_DATA_LOSS or any(fault.kind == "loss" for fault in faults):
        return EXIT_DATA_LOSS
    return EXIT_CORRUPT if faults else worst


@contextmanager
def _progress(folder: str) -> Iterator[OnChecked]:
    """Show a bar on a terminal, otherwise nothing."""
    if not sys.stderr.isatty():
        yield lambda _, __: None
        return
    with click.progressbar(length=1, label=f"verifying {shown(folder)}", file=sys.stderr) as bar:

        def show(done: int, total: int) -> None:
            bar.length = max(total, 1)
            bar.update(done - bar.pos)

        yield show


def _write(
    proof: Proof,
    compared: Comparison | None,
    faults: tuple[Fault, ...],
    forgotten: tuple[ListedFile, ...],
    *,
    as_json: bool,
) -> None:
    if as_json:
        document = _document(proof, compared, faults)
        document["forgotten"] = [asdict(file) for file in forgotten]
        click.echo(orjson.dumps(document).decode())
        return
    total = proof.total
    name = f"queue '{shown(proof.queue)}'"
    parts = [f"{total.rows} rows"] + [
        f"{count} {what}"
        for count, what in (
            (total.missing, "not in the log"),
            (total.corrupt, "damaged"),
            (total.excluded, "not asked for"),
        )
        if count
    ]
    sum_text = f"{' + '.join(parts)} = {offsets_in(total.covered)} offsets"
    verdict = "complete" if not faults else f"NOT complete, {len(faults)} faults"
    click.echo(
        f"{name}: {verdict}: {shown_ranges(total.covered)}: {sum_text}; {total.files} files, "
        f"{shown_bytes(total.bytes)}, {total.exports} exports"
        f"{', every offset read' if proof.is_deep else ''}"
    )
    for fault in faults[:FAULTS_SHOWN]:
        click.echo(f"  {'lost' if fault.kind == 'loss' else 'damaged'}: {shown(fault.text)}")
    if len(faults) > FAULTS_SHOWN:
        click.echo(f"  and {len(faults) - FAULTS_SHOWN} more (--json has all)")
    if proof.holes:
        click.echo(f"  not exported so far: {shown_ranges(proof.holes)}")
    if compared:
        click.echo(f"  {compared.text}")
    if forgotten:
        ranges = tuple(join_ranges((file.start, file.end) for file in forgotten))
        click.echo(
            f"  forgot {len(forgotten)} files: {shown_ranges(ranges)} count as not exported; "
            "an export without --since writes them again"
        )
        at_fault = {fault.path for fault in faults}
        whole = sum(file.path not in at_fault for file in forgotten)
        if whole:
            click.echo(
                f"  {whole} of them were whole, and went with a damaged one of their range: in "
                f"{CORRUPT_FOLDER}/"
            )


def _document(
    proof: Proof, compared: Comparison | None, faults: tuple[Fault, ...]
) -> dict[str, Any]:
    return {
        "queue": escaped_text(proof.queue),
        "vhost": escaped_text(proof.vhost),
        "incarnation": proof.incarnation,
        "is_complete": not faults,
        "is_deep": proof.is_deep,
        "manifests": proof.manifests,
        **asdict(proof.total),
        "holes": proof.holes,
        "log": compared
        and {
            "log_start": compared.log_start,
            "durable_end": compared.durable_end,
            "compared_rows": compared.rows,
            "text": compared.text,
        },
        "faults": [asdict(fault) for fault in faults],
    }
