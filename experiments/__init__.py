"""Studies: a grid of runs, the paper's numbers, and the rendering of tables and figures from records alone.

python -m experiments STUDY [--scale cpu] [--jobs 2] [--only-dirty] [--status | --render]
"""
