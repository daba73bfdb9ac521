"""Ray, for real: a cluster of two nodes on this machine, one of which is killed in the middle."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mnemoscope as ms
from mnemoscope.doctor import try_engine
from mnemoscope.studies.engines.claims import newest
from mnemoscope.studies.engines.engine import named

ray = pytest.importorskip("ray", reason="needs ray: pip install 'mnemoscope[ray]'")
pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="nodes of Ray, as Linux has"),
    # What Ray leaves open is its own.
    pytest.mark.filterwarnings("ignore"),
]

MEMORIES = ("rnn", "gru", "lstm")


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A head that computes nothing, and two nodes of one CPU each."""
    from ray.cluster_utils import Cluster

    # Workers import what tests do.
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    ray.shutdown()  # another test of this process may have had a cluster of its own
    head: dict[str, Any] = {"num_cpus": 0, "include_dashboard": False}
    made = Cluster(initialize_head=True, head_node_args=head)
    yield made
    ray.shutdown()
    made.shutdown()


def test_a_node_is_killed_and_the_study_ends_right(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "s"
    options: dict[str, Any] = {"memories": MEMORIES, "slow": 1.0, "trust": "tiny_study"}
    alone = ms.study("tiny_study:Faulty", out=tmp_path / "alone", jobs=1, **options)
    nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
    killed: list[int] = []

    def kill_one() -> None:
        deadline = time.monotonic() + 60
        while not (
            under_way := [
                seen
                for name in MEMORIES
                if (seen := newest(folder / "runs" / ".claims", name)) and not seen.released
            ]
        ):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        # The node that this worker belongs to: its parent is the raylet.
        worker = under_way[0].holder.process
        (parent,) = [n for n in nodes if raylet(n) == parent_of(worker)]
        cluster.remove_node(parent, allow_graceful=False)
        killed.append(worker)

    # Nodes were started elsewhere: a relative path begins where the command is given.
    monkeypatch.chdir(tmp_path)
    thread = threading.Thread(target=kill_one)
    thread.start()
    found = ms.study("tiny_study:Faulty", out="s", engine="ray", address=cluster.address, **options)
    thread.join()
    assert killed
    assert found.result == alone.result
    for name in MEMORIES:
        models = [
            home / "runs" / name / "model.safetensors" for home in (folder, tmp_path / "alone")
        ]
        assert models[0].read_bytes() == models[1].read_bytes()
    claims = list((folder / "runs" / ".claims").iterdir())
    done = [path.stem for path in claims if b"released" in path.read_bytes()]
    assert sorted(done) == sorted(MEMORIES)
    assert len(claims) > len(MEMORIES)  # what was under way on that node was begun again

    said = try_engine(named("ray", {"address": cluster.address}), tmp_path)
    assert said.well, said.found
    assert "two trials in" in said.found
    assert "equal bit for bit" in said.found


def raylet(node: Any) -> int:
    return int(node.all_processes["raylet"][0].process.pid)


def parent_of(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
