"""A simulation of claim files: ``python -m campaign.scheduler``. No file is touched.

Workers take trials in order, are killed now and then and come back. A trial whose worker was killed
continues from its last checkpoint once its claim has been silent for so long. What is counted: time
until all is done, work that was done twice, and what the shared folder has to bear.
"""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass

from mnemoscope.studies.engines.claims import BEATS, PATIENCE

# File operations of one look at a claim (is there a next one, and what does this one say), of one
# sign of life (is there a next one, a byte more), and of beginning and ending with a trial.
LOOK, BEAT, TRIAL = 3, 2, 8


@dataclass(frozen=True)
class Setting:
    """What is simulated; times in seconds."""

    trials: int = 1000
    workers: int = 100
    mean: float = 600.0  # of a trial, of which the longest takes about five times as long
    checkpoint: float = 120.0  # of training that a kill loses at most
    between_kills: float = 7200.0  # of one worker, on average; 0: nobody is killed
    back: float = 60.0  # until a worker that was killed is started again
    patience: float = PATIENCE
    seed: int = 0


@dataclass(frozen=True)
class Outcome:
    """What came of it: seconds, counts, and file operations per second."""

    makespan: float
    ideal: float
    kills: int
    done_twice: float
    silent: float
    operations: float
    busiest: float

    @property
    def lost(self) -> float:
        """The share of the time that faults and waiting cost."""
        return 1 - self.ideal / self.makespan


def simulate(setting: Setting) -> Outcome:
    """Let workers take trials until all are done."""
    draw = random.Random(setting.seed)
    left = [setting.mean * draw.lognormvariate(-0.32, 0.8) for _ in range(setting.trials)]
    ideal = max(sum(left) / setting.workers, max(left))
    free: list[tuple[float, int]] = [(0.0, number) for number in range(setting.trials)]
    held: set[int] = set()
    events = [(0.0, worker, -1, 0.0) for worker in range(setting.workers)]
    heapq.heapify(free)
    kills, twice, silent, done, now = 0, 0.0, 0.0, 0, 0.0
    beat = setting.patience / BEATS
    minutes: dict[int, float] = {}

    def operate(count: float, begin: float, end: float | None = None) -> None:
        """Spread file operations over the minutes in which they happen."""
        first, last = int(begin // 60), int((begin if end is None else end) // 60)
        for minute in range(first, last + 1):
            minutes[minute] = minutes.get(minute, 0.0) + count / (last - first + 1)

    while done < setting.trials:
        now, worker, ended, begun = heapq.heappop(events)
        if ended >= 0:  # this trial is done, by this worker
            held.discard(ended)
            done += 1
            operate(BEAT * (now - begun) / beat, begun, now)
        if not free or free[0][0] > now:
            # Nothing to take: it looks at all that others hold, and again a little later.
            operate(LOOK * (len(held) + len(free)), now)
            heapq.heappush(events, (now + beat, worker, -1, 0.0))
            continue
        since, trial = heapq.heappop(free)
        silent += setting.patience if since else 0.0
        held.add(trial)
        operate(TRIAL, now)
        moment = (
            draw.expovariate(1 / setting.between_kills) if setting.between_kills else left[trial]
        )
        if moment >= left[trial]:
            heapq.heappush(events, (now + left[trial], worker, trial, now))
            continue
        kills += 1
        kept = moment - moment % setting.checkpoint
        twice += moment - kept
        left[trial] -= kept
        held.discard(trial)
        heapq.heappush(free, (now + moment + setting.patience, trial))
        heapq.heappush(events, (now + moment + setting.back, worker, -1, 0.0))
    total = sum(minutes.values())
    return Outcome(now, ideal, kills, twice, silent, total / now, max(minutes.values()) / 60)


def table() -> str:
    """1 000 trials on 100 workers, with ever more faults."""
    lines = [
        "| a worker is killed every | kills | hours | ideal | time lost | done twice | silent | "
        "file operations/s | busiest minute |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for words, between in (("never", 0.0), ("10 hours", 36e3), ("2 hours", 72e2), ("30 min", 18e2)):
        setting = Setting(between_kills=between)
        one = simulate(setting)
        work = setting.workers * one.makespan
        lines.append(
            f"| {words} | {one.kills} | {one.makespan / 3600:.2f} | {one.ideal / 3600:.2f} | "
            f"{one.lost:.0%} | {one.done_twice / work:.1%} | {one.silent / work:.1%} | "
            f"{one.operations:.0f} | {one.busiest:.0f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
