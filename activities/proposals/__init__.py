"""Where new configurations come from: models, plug-ins, computations, optimizers of one's own."""
