"""Programs that come with the package: python -m mxnet.tools.im2rec --help."""
