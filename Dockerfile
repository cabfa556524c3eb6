# The image of volsched: one program whose verbs are the processes (`run`, `controllers`) and the tools.
#
# What is pinned: the base image by version and digest, every Python package and the build backend by the hashes in
# requirements/*.lock. Nothing else is fetched. A newer base means a new digest here:
#   docker buildx imagetools inspect python:3.11-slim-trixie
# The Python is the minor version for which the locks were made and with which the tests run.
ARG BASE=python:3.11.15-slim-trixie@sha256:db3ff2e1800a8581e2c48a27c3995339d47bdf046da21c7627accd3d51053a93

FROM ${BASE} AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_COMPILE=1
WORKDIR /src
COPY requirements/run.lock requirements/build.lock requirements/
# without pip, which nothing that runs needs
RUN python -m venv --without-pip /opt/volsched \
 && python -m pip --python /opt/volsched/bin/python install --require-hashes --no-deps -r requirements/run.lock
RUN python -m venv /opt/build \
 && /opt/build/bin/python -m pip install --require-hashes --no-deps -r requirements/build.lock
COPY pyproject.toml README.md LICENSE ./
COPY volsched volsched
COPY actions actions
COPY plugins plugins
# bytecode that is valid by its content and not by a time of the file, since nobody can write a newer one at run time
RUN /opt/build/bin/python -m pip wheel --no-build-isolation --no-deps --wheel-dir dist . \
 && python -m pip --python /opt/volsched/bin/python install --no-deps --no-index dist/*.whl \
 && /opt/volsched/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/volsched/lib

FROM ${BASE}
ARG VERSION=0.1.0
# the commit, and where it can be had; `make image` says both
ARG REVISION=unknown
ARG SOURCE=unknown
LABEL org.opencontainers.image.title="volsched" \
      org.opencontainers.image.description="A session scheduler for Kubernetes clusters with expensive, mixed accelerators" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.base.name="docker.io/library/python:3.11.15-slim-trixie"
ENV PATH=/opt/volsched/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
COPY --from=build /opt/volsched /opt/volsched
# a number, so that the kubelet can see that it is not root
USER 65532:65532
EXPOSE 8080 11251
ENTRYPOINT ["volsched"]
CMD ["--help"]
