"""Our code against what else there is, both timed in the same run: ``python -m benchmarks NAME``.

One line here registers a benchmark: a module with TITLE, SETTING and ``run(quick) -> rows``.
"""

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
}
