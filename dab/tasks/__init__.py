"""A task is a model, an objective and its metrics: all the engine knows of a problem.

task(batch)            -> (loss, logs): a scalar to minimise, and detached scalars to log
task.measure(batch)    -> {metric: [B]}: one value per sample, averaged over a split by the engine
task.select            the validation metric that decides which weights are kept
task.predict(words)    -> what the trained model says to input from a command line
"""
