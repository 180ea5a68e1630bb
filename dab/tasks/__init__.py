"""A task is a model, an objective and its metrics: all the engine knows of a problem.

task(batch)            -> (loss, logs): a scalar to minimise, and detached scalars to log
task.measure(batch)    -> {metric: [B] or [B, ...]}: values per sample, averaged over a split by the engine
task.summary(means)    -> {metric: float}: from these averages, also what only a whole split has
task.select            the validation metric that decides which weights are kept
task.predict(words)    -> what the trained model says to input from a command line

and, where a task has use for them,

task.prepare(data)                  look at the dataset, before training starts
task.measure_final(batch, split)    instead of `measure` at the end of a run, for the splits task.final_splits
task.diagnose(batch)                -> scalars about training itself, logged with every evaluation
task.pictures(batches)              -> {name: [N, H, W] in 0..1}: grids left in the run's figures
"""
