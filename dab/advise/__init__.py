"""Which gradient for which function: what a function is like, which estimators fit it, and how they do on a short task.

    python -m dab.advise my_module:my_function --shape 64

    function.py     a callable by name, torch or numpy, as a hard function; what is wrong with it, in a line
    traits.py       what a few calls tell of it
    candidates.py   the estimators, with what each of them needs, its knob, and the code that makes it
    recover.py      the task: an encoder before the function learns to match a hidden teacher's outputs
    advice.py       the candidates that fit on that task, within a time, and which of them to take
    __main__.py     the command

The atlas (experiments/atlas) uses the same traits, candidates and task.
"""
