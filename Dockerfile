# Gluon in a container: the library, the gluon command and the Python package.
#
#     docker build -t gluon .
#     docker run --rm gluon python3 -c "import mxnet as mx; print(mx.nd.ones((2, 3)))"
#
# SPDX-License-Identifier: Apache-2.0
FROM debian:bookworm-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev make cmake zlib1g-dev libjpeg-dev libpng-dev \
    python3-venv python3-dev pkg-config binutils ca-certificates
COPY . /gluon
WORKDIR /gluon
RUN make wheel deb

FROM debian:bookworm-slim
COPY --from=build /gluon/dist /tmp/dist
RUN apt-get update && apt-get install -y --no-install-recommends python3 python3-pip /tmp/dist/gluon_*.deb \
    && pip install --no-cache-dir --break-system-packages /tmp/dist/gluon_mxnet-*.whl \
    && rm -rf /tmp/dist /var/lib/apt/lists/*
CMD ["python3"]
