"""Networks with a slot for an estimator.

A model is built with `estimator, input_shape` and its own options; `model(x)` returns (output, penalty [B]). Before
that, the static method `code_shape(input_shape, hard, **options)` tells what the estimator will see, from all of the
model's options and the hard function that will stand there: `hard.bits_per_unit` sizes codes of a given number of bits.
A model whose signature has `code_shape` or `hard` is given them; `dab.models.code.shape_after` says what comes out.
"""
