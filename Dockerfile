# `waygraph serve` in an image, with what MCP configurations start servers by (npx, uvx, git): docker build -t waygraph .
#
#   docker run --rm -v waygraph:/data waygraph keys create ops --everything --scope route --scope read --scope write
#   docker run -d --init --read-only --tmpfs /tmp -v waygraph:/data -p 127.0.0.1:8080:8080 waygraph
#
# It writes to the volume /data alone: registry, keys, caches, and what servers keep at home. docs/operations.md says more.

# A release names each base image by its digest: docker build --build-arg BASE=python:3.12-slim@sha256:… .
ARG BASE=python:3.12-slim
ARG NODE=node:22-slim
ARG UV=astral/uv:0.13.9

FROM ${NODE} AS node
FROM ${UV} AS uv

FROM ${BASE} AS build
WORKDIR /build
RUN python -m venv /opt/waygraph
# With what sends traces, where OTEL_EXPORTER_OTLP_ENDPOINT is set; versions and hashes as locked.
COPY requirements/service.txt /build/requirements/service.txt
RUN /opt/waygraph/bin/python -m pip install --quiet --require-hashes --requirement /build/requirements/service.txt
# The model comes before the code: it changes less often.
COPY packages/waygraph-minilm /build/packages/waygraph-minilm
RUN /opt/waygraph/bin/python -m pip install --quiet --no-deps --no-build-isolation /build/packages/waygraph-minilm
COPY pyproject.toml README.md LICENSE /build/
COPY cypher /build/cypher
COPY registry /build/registry
COPY ingest /build/ingest
COPY api /build/api
COPY adapters /build/adapters
COPY src /build/src
RUN /opt/waygraph/bin/python -m pip install --quiet --no-deps --no-build-isolation /build
RUN /opt/waygraph/bin/python -m pip uninstall --quiet --yes setuptools pip

FROM ${BASE}
RUN apt-get update && apt-get install -y --no-install-recommends git libatomic1 && rm -rf /var/lib/apt/lists/*
COPY --from=node /usr/local/bin/node /usr/local/bin/node
COPY --from=node /usr/local/lib/node_modules/npm /usr/local/lib/node_modules/npm
RUN ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm && ln -s ../lib/node_modules/npm/bin/npx-cli.js /usr/local/bin/npx
COPY --from=uv /uv /uvx /usr/local/bin/
COPY --from=build /opt/waygraph /opt/waygraph
# With a name: git over ssh, and programs of Node.js that ask for it, fail without.
RUN useradd --uid 10001 --user-group --home-dir /data/home --shell /usr/sbin/nologin waygraph \
    && install --directory --owner 10001 --group 10001 /data /data/home
ENV PATH=/opt/waygraph/bin:$PATH
ENV WAYGRAPH_DATA_DIR=/data
ENV WAYGRAPH_CACHE_DIR=/data/cache
# npm and uv keep below it what they fetch, and servers what they keep: nothing else can be written.
ENV HOME=/data/home
# By default glibc keeps an arena of memory for each thread; a service with many would not give back what a sync took.
ENV MALLOC_ARENA_MAX=3
# A number, not a name: Kubernetes can then tell that it is not root.
USER 10001:10001
VOLUME /data
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 CMD ["python", "-c", "from http.client import HTTPConnection as C; c = C('127.0.0.1', 8080, timeout=4); c.request('GET', '/healthz'); raise SystemExit(c.getresponse().status != 200)"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["waygraph"]
# Refuses to start on this address without keys (`waygraph keys create`) or an OIDC issuer.
CMD ["serve", "--host", "0.0.0.0", "--port", "8080"]
