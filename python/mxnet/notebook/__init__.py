"""For notebooks: arrays, symbols and tables show themselves there; mxnet.callback has the callbacks of training."""
