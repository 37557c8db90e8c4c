"""The training loop."""

import itertools
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from icecore.errors import InputError, Interrupted, is_out_of_memory, require
from icecore.process import configure_process
from icecore.signals import Interrupts, interrupts_deferred
from icecore.store import remember_source
from icecore.tasks import Batch, Language
from icecore.training.config import RunConfig
from icecore.training.evaluation import evaluate, evaluating, refuse_non_finite_result, result_of
from icecore.training.memory import out_of_memory
from icecore.training.parallel import MicroBatches
from icecore.training.population import Population
from icecore.training.precision import Precision
from icecore.training.probes import Probe, probe_all
from icecore.training.progress import CHECKPOINT_MINUTES, Intervals, Progress, ProgressCallback
from icecore.training.replay import Replay
from icecore.training.run_folder import RunFolder
from icecore.training.snapshots import forget_snapshots_after, save_snapshot
from icecore.training.steps import NEVER, Steps
from icecore.training.stream import BatchStream, Stream

SIGNALS_SHARED_EVERY = 8  # steps: processes ask each other whether one was interrupted


def train_run(
    config: RunConfig,
    device: torch.device,
    intervals: Intervals,
    folder: RunFolder | None = None,
    with_body: bool = False,
    on_progress: ProgressCallback | None = None,
    micro: MicroBatches = MicroBatches(),
    probes: Mapping[str, Probe] | None = None,
) -> tuple[dict[str, Any], Population, list[dict[str, Any]]]:
    """Train a population to the end, resuming from its last checkpoint if there is one.

    Return the result, the population and one row per logged step. Only rank 0 has the folder.
    """
    configure_process()
    remember_source()
    try:
        test = config.task.test_set().to(device)
        trainer = Trainer(config, device, folder, micro, intervals.checkpoint_minutes)
        on_test: dict[str, list[float]] = {}
        with interrupts_deferred() as interrupted, Precision(config.precision).in_matrix_products():
            trainer.probe_untrained(probes, test)
            while trainer.step < config.steps:
                if trainer.step == trainer.phase_end:
                    trainer.begin_next_phase()
                before = trainer.step
                trainer.advance(intervals.next_stop(before, trainer.phase_end), interrupted)
                step, ends_phase = trainer.step, trainer.step == trainer.phase_end
                trainer.refuse_non_finite()
                if step > before and (intervals.is_logged(step) or ends_phase):
                    loss = trainer.steps.loss.tolist()
                    progress = Progress(step, config.steps, loss)
                    is_due = step % intervals.evaluate_every == 0
                    if ends_phase or (is_due and trainer.has_time_to_evaluate(intervals, test)):
                        on_rows = evaluating(on_progress, step, config.steps, loss, test)
                        progress, on_test = trainer.evaluated(progress, test, probes or {}, on_rows)
                    elif is_due:
                        sample = test[:: -(-len(test) // intervals.sample(config.training.batch))]
                        progress, _ = trainer.evaluated(replace(progress, items=len(sample)), sample, {}, None)
                    trainer.report(progress, on_progress)
                if folder is not None and step in intervals.snapshots and step > before:
                    save_snapshot(folder.path, config, step, trainer.population)
                number = micro.parallel.largest(interrupted.number, device)  # the signal in any process
                if step % intervals.checkpoint_every == 0 or number or ends_phase:
                    trainer.save()
                if number:
                    kept = "" if folder is None else f", saved in {folder.path}"
                    raise Interrupted(f"interrupted after step {step}{kept}", number)
        if not on_test:  # resumed after the last step
            on_rows = evaluating(on_progress, config.steps, config.steps, trainer.steps.loss.tolist(), test)
            on_test = evaluate(trainer.population, config.task, test, on_rows)
        result = on_test | result_of(config, trainer.population, device)
        refuse_non_finite_result(result)
        result |= trainer.best(result["loss"]) | {"seconds": round(trainer.seconds, 3)}
    except (RuntimeError, MemoryError) as error:
        if is_out_of_memory(error):
            raise out_of_memory(config) from error
        raise
    if folder is not None:
        folder.finish(config, result, trainer.population, with_body)
    return result, trainer.population, trainer.rows


class Trainer:
    """State of training: population, phase, step, data and run folder."""

    def __init__(
        self,
        config: RunConfig,
        device: torch.device,
        folder: RunFolder | None = None,
        micro: MicroBatches = MicroBatches(),
        checkpoint_minutes: float = CHECKPOINT_MINUTES,
    ) -> None:
        self.config, self.device, self.folder, self.parallel = config, device, folder, micro.parallel
        self.checkpoint_seconds = 60 * checkpoint_minutes
        self.ends = list(itertools.accumulate(phase.training.steps for phase in config.phases))
        population = Population(
            config.model,
            config.dims,
            config.seeds,
            config.phases[0].trainable,
            device,
            Precision(config.precision),
            initial=config.initial,
            rank=config.rank,
        )
        # Processes synchronize in every step: while one captures a graph, the others would wait.
        is_alone = micro.parallel.processes == 1
        self.captures = device.type == "cuda" and population.engine.capturable and is_alone
        stream = Stream(config.task, config.training.batch, config.data_seed, device)
        self.batches = BatchStream(stream, population.engine, bucketed=self.captures, micro=micro)
        self.rows: list[dict[str, Any]] = []  # metrics of each logged step
        self.step = 0
        self.saved_step: int | None = None
        self.started, self.seconds_before = time.monotonic(), 0.0
        self.saved_at = self.started
        self.evaluations: list[tuple[int, float]] = []  # items and seconds of each
        self.begin_phase(0, population)
        self.restore()
        self.first_step = self.step

    @property
    def phase_begin(self) -> int:
        return self.ends[self.phase - 1] if self.phase else 0

    @property
    def phase_end(self) -> int:
        return self.ends[self.phase]

    def begin_phase(self, phase: int, population: Population) -> None:
        self.phase, self.population = phase, population
        self.steps = Steps(population, self.config.phases[phase].training, self.parallel)
        self.replay = Replay(self.steps) if self.captures else None

    def begin_next_phase(self) -> None:
        following = self.phase + 1
        self.begin_phase(following, self.population.copy(self.config.phases[following].trainable))

    @property
    def seconds(self) -> float:
        """Return the training time so far, including the saved time before a resume."""
        return self.seconds_before + time.monotonic() - self.started

    def has_time_to_evaluate(self, intervals: Intervals, test: Batch) -> bool:
        """Tell whether another evaluation of all test items stays within its share of the time.

        The first is estimated at half the time of training on as many items: it has no backward pass.
        """
        if intervals.evaluation_share is None:
            return True
        now = time.monotonic() - self.started
        spent = sum(seconds for _, seconds in self.evaluations)
        steps = -(-len(test) // self.config.training.batch)
        first = 0.5 * steps * now / max(1, self.step - self.first_step)
        following = next((seconds for items, seconds in reversed(self.evaluations) if items == len(test)), first)
        return spent + following <= intervals.evaluation_share * (now + following)

    def evaluated(
        self, progress: Progress, test: Batch, probes: Mapping[str, Probe], on_rows: Callable[[int], None] | None
    ) -> tuple[Progress, dict[str, list[float]]]:
        """Return the progress with what a test batch and the probes measure, and all that the batch measures."""
        began = time.monotonic()
        on_test = evaluate(self.population, self.config.task, test, on_rows)
        found = probe_all(probes, self.population, test) if probes else None
        self.evaluations.append((len(test), time.monotonic() - began))
        return replace(progress, accuracy=on_test["accuracy"], test_loss=on_test["loss"], probes=found), on_test

    def advance(self, until: int, interrupted: Interrupts) -> None:
        """Take steps up to step `until` of this phase, or until interrupted; save when a checkpoint is due."""
        while self.step < until and not self.must_stop(interrupted):
            slot = self.batches.at(self.step)
            if self.replay is None:
                self.steps.take(*slot.step(slot.index))
                self.step += 1
                if self.device.type == "cpu":
                    self.refuse_non_finite()
            else:
                whole_group = slot.index == slot.begin and self.step + slot.end - slot.begin <= until
                end = slot.end if whole_group else slot.index + 1
                self.replay.take([slot.step(index) for index in range(slot.index, end)])
                self.step += end - slot.index
            if self.step == until or self.batches.is_last_of_block(self.step - 1):
                self.batches.look_ahead()  # while the GPU runs the queued steps
            if self.folder is not None and time.monotonic() - self.saved_at >= self.checkpoint_seconds:
                self.refuse_non_finite()
                self.save()

    def must_stop(self, interrupted: Interrupts) -> bool:
        """Tell whether a signal came. Several processes stop at the same step, or some would wait for the others."""
        if self.parallel.processes == 1:
            return interrupted.is_set()
        return self.step % SIGNALS_SHARED_EVERY == 0 and self.parallel.largest(interrupted.number, self.device) > 0

    def refuse_non_finite(self) -> None:
        bad = self.steps.first_bad_step
        if bool((bad == NEVER).all()):
            return
        index = int((bad != NEVER).nonzero()[0, 0])
        step = self.phase_begin + int(bad[index])
        raise self.not_finite(f"the loss of seed {self.population.seeds[index]} is not finite at step {step}")

    def not_finite(self, what: str) -> InputError:
        saved = "no checkpoint was saved yet"
        if self.folder is not None and self.saved_step is not None:
            saved = f"the last checkpoint is step {self.saved_step} in {self.folder.path}"
        way_out = "try a lower --lr" if self.step > 1 else "try a lower --gain or --lr"
        return InputError(f"{what}; {saved}; {way_out}")

    def probe_untrained(self, probes: Mapping[str, Probe] | None, test: Batch) -> None:
        """Run the probes once before the first step: the control, and an early test that they work."""
        if probes and self.step == 0 and not self.rows:
            self.append({"step": 0, "probes": probe_all(probes, self.population, test)})

    def report(self, progress: Progress, on_progress: ProgressCallback | None) -> None:
        row: dict[str, Any] = {"step": progress.step, "loss": progress.loss}
        if progress.accuracy is not None:
            row |= {"accuracy": progress.accuracy, "test_loss": progress.test_loss}
        if progress.items is not None:
            row["items"] = progress.items
        if progress.probes is not None:
            row["probes"] = progress.probes
        self.append(row)
        if on_progress is not None:
            on_progress(progress)

    def append(self, row: dict[str, Any]) -> None:
        self.rows.append(row)
        if self.folder is not None:
            self.folder.append_metrics(row)

    def save(self) -> None:
        """Write a checkpoint. A step's loss is measured before its update, so the weights are checked too."""
        for name, values in self.population.trained.items():
            if not bool(values.isfinite().all()):
                raise self.not_finite(f"{name} is not finite after step {self.step}")
        self.saved_step = self.step
        if self.folder is not None:
            self.folder.save_checkpoint(self.step, self.seconds, self.state())
        self.saved_at = time.monotonic()

    def state(self) -> dict[str, Tensor]:
        """Return views of a checkpoint's tensors: this phase's values and moments, and what earlier phases trained."""
        frozen = self.population.frozen
        kept = {f"kept/{name}": frozen[name] for name in self.config.trained_names if name in frozen}
        return self.steps.state() | kept

    def restore(self) -> None:
        """Load the last checkpoint, if there is one. A phase's last step belongs to that phase, not to the next."""
        found = None if self.folder is None else self.folder.checkpoint_step()
        if self.folder is not None and found is not None:
            self.step, self.seconds_before = found
            total = self.config.steps
            require(0 <= self.step <= total, f"{self.folder.path} has a checkpoint of step {self.step} of {total}")
            self.saved_step = self.step
        self.step = self.parallel.share_step(self.step, self.device)
        while self.step > self.phase_end:
            self.begin_next_phase()
        tensors: Mapping[str, Tensor] = {}
        if self.folder is not None:
            if found is not None:
                tensors = self.folder.load_checkpoint(self.state())
            self.folder.forget_metrics_after(self.step)
            forget_snapshots_after(self.folder.path, self.step)
            self.rows = list(self.folder.metrics())
        if self.step == 0:
            return
        if tensors:
            self.population.load({name.removeprefix("kept/"): value for name, value in tensors.items()})
            self.steps.set_state(self.step - self.phase_begin, tensors)
        if self.parallel.processes > 1:
            state = self.state()
            self.parallel.share(state.values())
            self.population.load({name.removeprefix("kept/"): value for name, value in state.items()})
            self.steps.set_state(self.step - self.phase_begin, state)

    def best(self, at_the_end: list[float]) -> dict[str, list[float]]:
        """Return each seed's lowest measured validation loss and its step, for language modeling.

        Other tasks are scored at the end of training.
        """
        if not isinstance(self.config.task, Language):
            return {}
        whole = [row for row in self.rows if row.get("test_loss") is not None and "items" not in row]
        measured = [(row["step"], row["test_loss"]) for row in whole]
        steps, losses = zip(*measured, (self.config.steps, at_the_end), strict=True)
        least = [min(zip(of_seed, steps, strict=True)) for of_seed in zip(*losses, strict=True)]
        return {"best_loss": [loss for loss, _ in least], "best_step": [step for _, step in least]}
