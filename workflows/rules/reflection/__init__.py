"""What reflective optimizers find out from everything that was measured."""
