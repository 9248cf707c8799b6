"""Code that runs inside the engine's interpreter. Put on its PYTHONPATH; never imported by the harness."""
