"""Networks with a slot for an estimator.

A model is built with `estimator, input_shape` and its own options, and tells with the static method
`code_shape(input_shape, **options)` what the estimator will see. `model(x)` returns (output, penalty [B]).
"""
