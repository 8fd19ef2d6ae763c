"""Error bounds for the output of any reference.

The reference is traced into torch's core operators. A bound of the rounding error then goes along
with every tensor, by one rule for each operator:

- `tracked` has tensors with bounds, the registry of rules, and what each arithmetic loses.
- `propagate` traces a reference and applies the rules to its graph.
- `elementwise`, `functions`, `reductions`, `products`, `pooling`, `normalising`, `complex_numbers`
  and `structure` register the rules.
- `looking` replaces torch functions that cannot be traced.
- `factored` finds the two operands of a reference that is one sum of products.
- `trials` estimates the error by experiment, for outputs whose bound says nothing.
- `expected` joins traces, rules and trials into the expected output of a run.

This package only computes bounds. `harness.judging` compares outputs with them.
"""
