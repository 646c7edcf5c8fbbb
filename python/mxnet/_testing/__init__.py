"""The parts of mxnet.test_utils, one file per subject."""
