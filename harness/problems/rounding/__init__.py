"""How far rounding may lead a right output of any reference from the exact one.

The reference is traced into torch's core operators, and a bound of the error goes along with every
tensor through a rule for each operator; what is made of the bound is judged elsewhere (judging/).
"""
