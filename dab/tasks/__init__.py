"""A task is a model, an objective and its metrics: all the engine knows of a problem.

task(batch)            -> (loss, logs): a scalar to minimise, and detached scalars to log
task.measure(batch)    -> {metric: [B] or [B, ...]}: values per sample, averaged over a split by the engine
task.summary(means)    -> {metric: float}: from these averages, also what only a whole split has
task.select            the validation metric that decides which weights are kept
task.predict(words)    -> what the trained model says to input from a command line

and, where a task has use for them,

task.prepare(data)                  look at the dataset, before training starts
task.measure_final(batch, split)    instead of `measure` at the end of a run, for the splits task.final_splits
task.examine(data, workers)         -> {metric: float}: once, at the end of a run, what takes whole splits to find out
task.diagnose(batch)                -> scalars about training itself, logged with every evaluation
task.diagnoses                      whether `diagnose` has anything to say
task.pictures(batches)              -> {name: Grid}: images of the test set, left in the run's figures
task.example(input_shape)           -> words that `predict` understands, for the hint at the end of a run

`dab.data.dataset` says what `data` offers. `measure`, `examine`, `pictures` and `predict` also work without what only
training needs: `dab.predict` and `dab.measure` call them on the stripped model of a finished run.

`examine` names its metrics in full ("test/probe_accuracy"). It and `diagnose` are called on a copy of the task, with
random numbers of their own: whatever they do to it, training and the saved weights do not notice. With several workers
all of them call it, each with its share of the data; `workers.concatenate(batches)` is what all have, in the split's
order, and the first one's metrics count:

    def examine(self, data, workers):
        codes, labels = workers.concatenate((self.model.code(x), y) for x, y in data.batches("train"))
"""
