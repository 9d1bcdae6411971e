"""Checkpoints for tests: opened, and run for some batches."""

import json

from headgate.routing.table import Table
from headgate.storage.checkpoint import Checkpoint
from headgate.storage.manifest import Delivery, Manifest
from headgate.storage.state_index import StateFile, StateIndex, live_files

IDENTITY = {
    "key": [["user", "string"]],
    "bins": 4,
    "operator": "Aggregate(n=count())",
    "inputs": {"x": "int64"},
    "state": [["key", "bytes", 0], ["n:n", "i64", 0]],
}


def line_of(batch):
    return json.dumps({"report": {"batch": batch}})


def opened(store, **options):
    """A checkpoint that this driver has."""
    checkpoint = Checkpoint(store, IDENTITY, staged=[store.child("output")], **options)
    checkpoint.identify()
    checkpoint.take()
    return checkpoint


def manifest_of(batch, *, run, before=None, bins=(0,), snapshots=()):
    """The commit of a batch that touches `bins`, all in one file."""
    bases = dict(before.state.bases) if before else {}
    for b in bins:
        bases.setdefault(b, batch)
    bases.update(dict.fromkeys(snapshots, batch))
    written = StateFile(f"{batch:012d}-{run}.hgs", batch, frozenset(bins) | frozenset(snapshots))
    files = live_files((*(before.state.files if before else ()), written), bases)
    return Manifest(
        batch=batch,
        run=run,
        channels=2,
        delivery=Delivery(number=batch),
        table=Table.uniform(4, 2),
        state=StateIndex(files=files, bases=bases),
        journal=line_of(batch),
    )


def run_batch(checkpoint, batch, **kwargs):
    """What the stage does in one batch, in its order."""
    before = checkpoint.last
    manifest = manifest_of(batch, before=before, run=checkpoint.run, **kwargs)
    checkpoint.store.write(f"state/{manifest.state.files[-1].name}", [b"state"])
    checkpoint.store.make(f"output/{manifest.folder}")
    checkpoint.store.write(f"output/{manifest.folder}/part", [b"output"])
    checkpoint.commit(manifest)
    checkpoint.write_journal(manifest.journal, batch)
    checkpoint.retire(before, manifest)
    return manifest
