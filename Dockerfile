# One image for the server, the build worker and the Dask roles: they must agree on every version anyway.
#
#   docker build --tag parsimony .
#   docker run --init --read-only --tmpfs /tmp --stop-timeout 30 --volume parsimony:/data \
#     --publish 127.0.0.1:8000:8000 parsimony
#
# The second command is the whole service, with a worker and the embedded Redis under /data; docker-compose.yml has the
# larger house.

# Python 3.11 is the version that the locks are written for and the tests run on; all stages must have the same one,
# because a virtual environment points at its interpreter.
FROM python:3.11-slim-bookworm AS builder
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src

# The dependencies come first, and are a layer of the image by themselves: only when the lock changes is it built again,
# pushed, pulled and stored. Afterwards the installer goes: the image cannot be added to from inside.
COPY requirements.lock ./
RUN python -m venv /opt/parsimony \
    && /opt/parsimony/bin/pip install --require-hashes --requirement requirements.lock \
    && /opt/parsimony/bin/pip uninstall --yes setuptools pip


FROM builder AS product
# What builds the wheel is locked too: an isolated build would fetch whatever setuptools is newest. It is in the
# developers' lock only, and goes into this stage's Python, never into the image.
COPY requirements-dev.lock ./
RUN sed -n '/^setuptools==/,/[^\\]$/p' requirements-dev.lock > build.lock \
    && test -s build.lock \
    && pip install --require-hashes --requirement build.lock

COPY pyproject.toml README.md LICENSE ./
COPY parsimony parsimony
COPY models models
COPY solvers solvers
COPY app app
# For the environment's interpreter, into a folder that holds nothing else. pip compiles to bytecode here, since nothing
# can write beside the modules later.
RUN pip wheel --no-deps --no-build-isolation --wheel-dir /wheels . ./parsimony \
    && pip --python /opt/parsimony/bin/python install --prefix /product --no-deps /wheels/*.whl


FROM python:3.11-slim-bookworm
LABEL org.opencontainers.image.title="Parsimony" \
      org.opencontainers.image.licenses="Apache-2.0"

# A fixed number, so that volumes and policies can name the user. The folder is made here because a new volume takes its
# owner from the image. It stays empty: two containers that share a new volume would both copy what is in it, and the
# engine fails the second.
RUN groupadd --gid 10001 parsimony \
    && useradd --uid 10001 --gid 10001 --home-dir /data --no-create-home --shell /usr/sbin/nologin parsimony \
    && install --directory --owner=parsimony --group=parsimony --mode=0700 /data /data/recordings /data/uploads

COPY --from=builder /opt/parsimony /opt/parsimony
COPY --from=product /product /opt/parsimony
COPY deploy/healthcheck.py /opt/parsimony/healthcheck.py

# PYTHONSAFEPATH: /data is the working directory, and no file that lands there may pass for one of our modules.
ENV PATH=/opt/parsimony/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONSAFEPATH=1

# A container's own 127.0.0.1 is reached by nobody, so it listens on all its addresses; who may come in is decided by
# what is published.
ENV PARSIMONY_HOST=0.0.0.0 \
    PARSIMONY_PORT=8000 \
    PARSIMONY_DATA_DIR=/data

# Everything written goes to /data or /tmp; the rest may be read-only.
# TMPDIR: an upload of hundreds of megabytes waits here until it is checked. On the volume it costs disk; in a /tmp of
# type tmpfs it would cost the container's memory.
ENV TMPDIR=/data

USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 8000

# Live, not ready: a server that waits for its first artifacts is healthy and must not be killed for it.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-I", "/opt/parsimony/healthcheck.py", "/health/live"]

ENTRYPOINT ["parsimony"]
CMD ["serve"]
