"""Error bounds for the output of any reference.

The reference is traced into torch's core operators. Every tensor carries a bound of its rounding
error. Each operator has one rule that computes the bound of the result:

- `tracked` has tensors with bounds, the registry of rules, and the rounding errors of an
  arithmetic.
- `propagate` traces a reference and applies the rules to its graph.
- `elementwise`, `functions`, `reductions`, `products`, `pooling`, `normalising`, `complex_numbers`
  and `structure` register the rules.
- `looking` replaces torch functions that cannot be traced.
- `factored` finds the two operands of a reference that is one sum of products.
- `trials` estimates the error by experiment, for outputs whose bound is too loose to be useful.
- `expected` combines traces, rules and trials into the expected output of a run.

This package only computes bounds. `harness.judging` compares outputs with them.
"""
