"""Datasets that live on the device.

A dataset is built with `seed, batch_size, eval_batch_size, steps, device, rank, world` and offers

    data.batch(step)     this worker's share of the training batch of that step, a function of (seed, step) alone
    data.batches(split)  this worker's share of "valid" or "test", each sample once over all workers
    data.input_shape     shape of one input, without the batch dimension

One whose signature has `folder` is also told where files are looked for and kept (`paths.data`).
"""
