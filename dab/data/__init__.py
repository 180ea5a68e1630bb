"""Datasets that live on the device, and one that is read while the network trains.

A dataset is built with `seed, batch_size, eval_batch_size, steps, device, rank, world` and offers

    data.batch(step)     this worker's share of the training batch of that step, a function of (seed, step) alone
    data.batches(split)  this worker's share of "valid", "test" or (a fixed training set) "train", each sample once
    data.input_shape     shape of one input, without the batch dimension
    data.mean            of the training inputs, [*input_shape]
    data.classes         where there are labels: batches are (x, labels)

as `dab.data.dataset` says in full. One whose signature has `folder` is also told where files are looked for and kept
(`paths.data`). For images, `dab.data.images` has all but the reading of files; where they are too many to hold,
`dab.data.streamed` reads them ahead.
"""
