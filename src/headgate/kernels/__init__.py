"""User kernels: a plain Python function per row, checked, typed and compiled to one loop over a bin's rows.

`fields` what state and output are made of; `source` the function's text and names; `statements`, `expressions` and their parts from
Python to typed code; `module` the compiled loop; `interpreted` the same function as it stands; `bound` the operator.
"""
