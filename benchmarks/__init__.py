"""Our code against what else there is, timed in the same run: ``python -m benchmarks NAME | all``.

One line here registers a benchmark: a module with TITLE, SETTING and ``run(quick) -> rows``. With
``quick`` it runs the same code at a tiny size, for the tests.
"""

# What numpy's and torch's libraries read once, when they are loaded. Without it numpy's threads
# wait for work in a loop, and process CPU time charges the waiting to whoever called numpy.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

BENCHMARKS = {
    "recurrent": "benchmarks.recurrent",
    "transformer": "benchmarks.transformer",
    "generation": "benchmarks.generation",
    "xl": "benchmarks.xl",
    "continuous": "benchmarks.continuous",
    "sparse": "benchmarks.sparse",
    "translation": "benchmarks.translation",
    "similarity": "benchmarks.similarity",
    "capture": "benchmarks.capture",
    "documents": "benchmarks.documents",
    "waves": "benchmarks.waves",
    "engines": "benchmarks.engines",
    "check": "benchmarks.check",
    "infinite_hf": "benchmarks.infinite_hf",
    "evolution": "benchmarks.evolution",
}
