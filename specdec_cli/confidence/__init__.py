"""How sure the models are of the classes that a caption names: probabilities, their calibration, and doubt."""
