"""The training loop: a run is a pure function of its config, on any number of processes.

Everything random at a step depends on (seed, purpose, step, process) only, so a run that was
killed continues from its last checkpoint to the same weights, bit for bit on the same machine.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from mnemoscope.core.errors import InterruptedRunError, UserError
from mnemoscope.core.files import held
from mnemoscope.core.progress import progress
from mnemoscope.core.seeds import derive
from mnemoscope.data.batch import NO_QUESTION, Batch
from mnemoscope.models.encoder.model import EncoderModel
from mnemoscope.models.model import Output, SequenceModel, StreamState
from mnemoscope.training import checkpoint, machine
from mnemoscope.training.config import RunConfig, Training
from mnemoscope.training.evaluate import encode, evaluate
from mnemoscope.training.optimizer import all_but_vectors, decaying, make_optimizer
from mnemoscope.training.run import Run
from mnemoscope.training.schedule import learning_rate

# Seconds of a step that is timed once and not again.
LONG_STEP = 1.0
# Losses are fetched from the device, checked and logged every so many steps.
LOOK_EVERY = 10


class DivergedError(UserError):
    """The loss or the gradient left the finite numbers."""


def train(
    config: RunConfig,
    out: str | Path,
    model: SequenceModel | None = None,
    silent: bool = False,
    moments: Collection[int] = (),
) -> Run:
    """Train a model (by default a fresh one, drawn from the seed) in a new folder.

    ``moments`` are steps after which the weights are kept: see `Run.moment`.
    """
    config.check()
    if model is not None and model.config != config.model:
        raise UserError(f"the run wants a model of {config.model!r}, given was {model.config!r}")
    accelerator = _join(config.training)
    run = Run(Path(out), config)
    # A model too large for this machine shows before there is a folder.
    begun = run.fresh() if model is None else model
    # One process makes the folder; to the others it would look like somebody else's.
    if accelerator.is_main_process:
        Run.create(out, config, model)
    accelerator.wait_for_everyone()
    if model is not None:
        # Read back from the folder: every process must begin alike.
        begun.load_state_dict(run.untrained().state_dict())
    return _Trainer(run, begun, accelerator, silent, moments).go(None)


def resume(folder: str | Path, silent: bool = False, moments: Collection[int] = ()) -> Run:
    """Continue a run from its newest whole checkpoint; a finished run is returned as it is."""
    run = Run.open(folder)
    if run.finished:
        run.final()  # is it?
        return run
    accelerator = _join(run.config.training)
    found = run.newest(accelerator.process_index, accelerator.num_processes)
    run.check_text()
    return _Trainer(run, run.untrained(), accelerator, silent, moments).go(found)


def step_seconds(config: RunConfig, clock: Callable[[], float] = time.perf_counter) -> float:
    """How long one optimiser step of a fresh model takes here, on one thread.

    The first one warms up and does not count, unless it is long enough to speak for all.
    """
    run, threads = Run(Path(), config), torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            trainer = _Trainer(run, run.fresh(), _join(config.training), silent=True)

            def timed(steps: range) -> float:
                began = clock()
                for step in steps:
                    trainer.step(step)
                trainer.pending[-1][1].tolist()  # waits for the device
                return (clock() - began) / len(steps)

            first = timed(range(1))
            return first if first > LONG_STEP else timed(range(1, 4))
    finally:
        torch.set_num_threads(threads)


def _join(settings: Training) -> Any:
    """Find the other processes, among which a batch must divide evenly."""
    accelerator = machine.join(settings.device)
    if settings.batch % (accelerator.num_processes * settings.accumulate):
        raise UserError(
            f"batch {settings.batch} does not divide into {accelerator.num_processes} processes × "
            f"{settings.accumulate} parts"
        )
    return accelerator


class _Trainer:
    """One run in progress."""

    def __init__(
        self,
        run: Run,
        model: SequenceModel,
        accelerator: Any,
        silent: bool,
        moments: Collection[int] = (),
    ) -> None:
        self.run, self.config, self.settings = run, run.config, run.config.training
        self.accelerator = accelerator
        self.rank: int = self.accelerator.process_index
        self.processes: int = self.accelerator.num_processes
        self.device: torch.device = self.accelerator.device
        self.model = model.to(self.device).train()
        self.reader: Callable[..., Any] = (
            torch.compile(self.model) if self.settings.compile else self.model
        )
        # Of a sentence in which few words are asked for, the others need no readout. What is
        # compiled is compiled anew for every number of words: there it would cost more.
        self.reads_out_asked = isinstance(self.model, EncoderModel) and not self.settings.compile
        self.moments = frozenset(moments)
        self.decays = decaying(self.model)
        self.optimizer = make_optimizer(self.model, self.settings)
        self.states: list[StreamState | None] = [None] * self.settings.accumulate
        self.pending: list[tuple[int, Tensor, Tensor]] = []  # step, losses, norm of the gradient
        self.silent = silent or self.rank > 0
        self.shown = float("nan")
        self.clock = time.perf_counter()

    def go(self, start: checkpoint.Checkpoint | None) -> Run:
        """Train from a checkpoint, or from the beginning, to the last step."""
        with held(self.run.folder / "config.yaml", f"training {self.run.folder}", self.rank == 0):
            try:
                return self._train(self._begin() if start is None else self._continue(start))
            except KeyboardInterrupt as error:
                raise InterruptedRunError(
                    "stopped at once; what was learnt up to the last checkpoint is kept. Continue "
                    f"with: {self.run.continuing(self.processes)}"
                ) from error

    def _train(self, first: int) -> Run:
        label = f"{self.config.task_name} · {self.config.memory}"
        with (
            progress(label, self.settings.steps, first, silent=self.silent) as show,
            machine.stoppable() as stop_asked,
        ):
            for done in range(first + 1, self.settings.steps + 1):
                self.step(done - 1)
                stopped = self._agree(stop_asked(), done)
                if done % LOOK_EVERY == 0 or done == self.settings.steps or stopped:
                    self._look()
                show(done, "" if math.isnan(self.shown) else f"loss {self.shown:.3f}")
                if done % self.settings.evaluate_every == 0 or done == self.settings.steps:
                    self._evaluate(done)
                if done in self.moments and self.rank == 0:
                    self.run.keep_moment(done, self.model)
                if done == self.settings.steps:
                    break
                if done % self.settings.checkpoint_every == 0 or stopped:
                    self._look()
                    self._save(done)
                if stopped:
                    raise InterruptedRunError(
                        f"stopped after step {done}; nothing is lost. Continue with: "
                        f"{self.run.continuing(self.processes)}"
                    )
        if self.rank == 0:
            self.run.finish(self.model)
        self._wait()
        return self.run

    def _begin(self) -> int:
        # A folder that cannot be written to shows before anything is learnt.
        self._save(0)
        if self.rank == 0:
            self.run.rewind(0)
        return 0

    def _continue(self, start: checkpoint.Checkpoint) -> int:
        try:
            self.model.load_state_dict(start.model)
            # A run continues as it began, whatever a later version lets decay.
            self.decays = all_but_vectors(self.model) if start.decays is None else start.decays
            self.optimizer = make_optimizer(self.model, self.settings, self.decays)
            checkpoint.unpack(self.optimizer, start.optimizer)
        except (RuntimeError, UserError) as error:
            raise UserError(
                f"the checkpoint of step {start.step} in {self.run.checkpoints} is not of the "
                f"model in config.yaml: {error}"
            ) from error
        if len(start.states) != len(self.states):
            raise UserError(
                f"the checkpoint of step {start.step} in {self.run.checkpoints} holds the states "
                f"of {len(start.states)} parts, config.yaml wants {len(self.states)}: put "
                "accumulate back"
            )
        for part, state in enumerate(start.states):
            if state is not None:
                assert isinstance(state, StreamState)
                self.states[part] = state.to(self.device)
        if self.rank == 0:
            self.run.rewind(start.step)
        return start.step

    def _agree(self, asked: bool, done: int) -> bool:
        """Stop all processes after the same step, or they would wait for each other for ever."""
        if self.processes == 1 or done % LOOK_EVERY:
            return asked and self.processes == 1
        votes = self._reduce(torch.tensor(float(asked), device=self.device), "sum")
        return bool(votes > 0)

    def _reduce(self, values: Tensor, how: str) -> Tensor:
        """Sum or mean over processes."""
        try:
            reduced: Tensor = self.accelerator.reduce(values, how)
        except RuntimeError as error:
            raise self._lost() from error
        return reduced

    def _wait(self) -> None:
        """Until all processes are here."""
        try:
            self.accelerator.wait_for_everyone()
        except RuntimeError as error:
            raise self._lost() from error

    def _lost(self) -> machine.LostProcessError:
        return machine.LostProcessError(
            "another process of this run has ended, so this one ends too; what was learnt up to "
            f"the last checkpoint is kept. Continue with: {self.run.continuing(self.processes)}"
        )

    def step(self, step: int) -> None:
        """One optimiser step on the batch that belongs to it."""
        settings = self.settings
        torch.manual_seed(derive(settings.seed, "dropout", step, self.rank))
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(step, settings)
        self.optimizer.zero_grad(set_to_none=True)

        whole = self.config.task.batch(
            step, settings.batch, seed=settings.seed, length=self.config.stretch
        )
        questions = max(1, int((whole.targets != NO_QUESTION).sum()))
        parts = self.processes * settings.accumulate
        loss = torch.zeros(2, device=self.device)  # of the task, and what memories ask for
        for part in range(settings.accumulate):
            batch = whole.part(self.rank * settings.accumulate + part, parts)
            if not len(batch.tokens):  # long sentences come in small batches
                continue
            # Each process sees a share of the questions; gradients are averaged over processes.
            share, self.states[part] = self._read(
                batch, self.states[part], questions / self.processes
            )
            loss += share
        self._average_gradients()
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), settings.clip)
        self.optimizer.step()
        self.pending.append((step + 1, loss, norm))

    def _read(
        self, batch: Batch, state: StreamState | None, questions: float
    ) -> tuple[Tensor, StreamState | None]:
        """Read a batch segment by segment, with a backward pass every ``tbptt`` segments."""
        settings, carries = self.settings, self.config.task.carries
        tokens = torch.from_numpy(batch.tokens).to(self.device)
        targets = torch.from_numpy(batch.targets).to(self.device)
        # A state in which every row starts anew is dropped, or attention's would grow for ever.
        if not carries or batch.starts.all():
            state = None
        elif state is not None and batch.starts.any():
            state = state.reset(torch.from_numpy(batch.starts))

        length = self.config.segment if carries else settings.segment or tokens.shape[1]
        total = torch.zeros(2, device=self.device)
        for begin in range(0, tokens.shape[1], length * settings.tbptt):
            end = min(begin + length * settings.tbptt, tokens.shape[1])
            # A stretch without questions only fills the state: nothing to learn from it here.
            asked = bool((batch.targets[:, begin:end] != NO_QUESTION).any())
            loss, extra = torch.zeros(2, device=self.device).unbind()
            with torch.set_grad_enabled(asked), machine.autocast(self.device, settings.precision):
                if batch.source is not None:
                    state = encode(self.model, batch.source)
                for left in range(begin, end, length):
                    here = slice(left, min(left + length, end))
                    here_asked = int((batch.targets[:, here] != NO_QUESTION).sum())
                    if not here_asked:
                        state = self.model.prefill(tokens[:, here], state)
                        continue
                    out, asked_of = self._answers(tokens[:, here], state, targets[:, here])
                    state = out.state
                    loss = loss + self._loss(out.logits, asked_of)
                    # What memories ask for is a mean: it counts by the questions it came with.
                    extra = extra + here_asked * sum(out.losses.values(), loss.new_zeros(()))
            if asked:
                torch.autograd.backward((loss + extra) / questions)
                total += torch.stack((loss, extra)).detach() / questions
            assert state is not None
            state = state.detach()
        return total, state if carries else None

    def _answers(
        self, tokens: Tensor, state: StreamState | None, targets: Tensor
    ) -> tuple[Output, Tensor]:
        """What the model says of tokens (B, T), and what it should have said where it answers."""
        if self.reads_out_asked:
            asked = targets != NO_QUESTION
            return self.reader(tokens, state, asked=asked), targets[asked][None]
        out = self.reader(tokens, state)
        # A model that reads out last answers there only.
        return out, targets[:, -out.logits.shape[1] :]

    def _loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Sum of cross-entropies; smoothing spreads ε evenly over all V outputs."""
        return F.cross_entropy(
            logits.flatten(0, 1).float(),
            targets.flatten(),
            ignore_index=NO_QUESTION,
            reduction="sum",
            label_smoothing=self.settings.label_smoothing,
        )

    def _average_gradients(self) -> None:
        """Mean over processes, once per step, however many backward passes it had.

        Done by hand because DistributedDataParallel expects one forward and one backward pass.
        """
        if self.processes == 1:
            return
        for weight in self.model.parameters():
            if weight.grad is None:  # this process's rows had no question for it
                weight.grad = torch.zeros_like(weight)
        gradients = [weight.grad for weight in self.model.parameters() if weight.grad is not None]
        flat: Any = torch.cat([gradient.flatten() for gradient in gradients])
        flat = self._reduce(flat, "mean")
        for gradient, mean in zip(
            gradients, flat.split([g.numel() for g in gradients]), strict=True
        ):
            gradient.copy_(mean.view_as(gradient))

    def _look(self) -> None:
        """Fetch the losses since the last look, stop if one is not finite, log their mean."""
        if not self.pending:
            return
        steps = [step for step, _, _ in self.pending]
        losses = torch.stack([loss for _, loss, _ in self.pending])  # (steps, 2)
        norms = torch.stack([norm for _, _, norm in self.pending])
        self.pending = []
        if self.processes > 1:
            losses = self._reduce(losses, "mean")
        for step, loss, norm in zip(steps, losses.sum(1).tolist(), norms.tolist(), strict=True):
            if not (math.isfinite(loss) and math.isfinite(norm)):
                raise self._not_finite(step, loss, norm)
        self.shown, extra = losses.mean(0).tolist()
        now = time.perf_counter()
        if self.rank == 0:
            self.run.log(
                step=steps[-1],
                loss=self.shown,
                gradient=float(norms.mean()),
                lr=learning_rate(steps[-1] - 1, self.settings),
                seconds=round(now - self.clock, 4),
                **({"auxiliary": extra} if extra else {}),
            )
        self.clock = now

    def _not_finite(self, step: int, loss: float, norm: float) -> DivergedError:
        good = checkpoint.newest(self.run.checkpoints, self.rank, self.processes)
        where = f"step {good.step} in {self.run.checkpoints}" if good else "none"
        rate = learning_rate(step - 1, self.settings)
        return DivergedError(
            f"training of {self.run.folder} stopped at step {step}: the loss is {loss}, the norm "
            f"of the gradient {norm}, the learning rate {rate:.3g}. Last good checkpoint: {where}. "
            "Try a lower lr, a longer warmup or a smaller clip"
        )

    def _evaluate(self, step: int) -> None:
        if self.rank == 0:
            score = evaluate(
                self.model,
                self.config.task,
                batches=self.settings.evaluate_batches,
                size=self.config.held_out_rows,
                seed=self.settings.seed,
                segment=self.settings.segment,
            )
            majority = self.config.task.majority
            self.run.log(
                step=step,
                valid_loss=score.loss,
                valid_accuracy=score.accuracy,
                **({} if majority is None else {"majority_accuracy": majority}),
            )

    def _save(self, step: int) -> None:
        now = checkpoint.Checkpoint(
            step,
            dict(self.model.state_dict()),
            checkpoint.pack(self.optimizer),
            list(self.states),
            self.config.plain(),
            self.decays,
        )
        checkpoint.save(
            self.run.checkpoints,
            now,
            self.settings.keep,
            self.rank,
            self.processes,
            self._wait,
            self.run.continuing(self.processes),
        )
