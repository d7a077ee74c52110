# The sync client with an OPA program beside it, in an image without a shell. Build it from the top folder of the repository:
#
#   docker build -f deploy/container/client.Dockerfile -t policysync/client:local .
#
# The base images are build arguments. For a build that can be repeated give them with their digest, as the image workflow does:
#   --build-arg NODE_IMAGE=node:24-bookworm-slim@sha256:...
#
# The last stage stands on the stage "runtime" below. Any other distroless image that has Node at /nodejs/bin/node may take its place:
#   --build-arg RUNTIME_IMAGE=<registry>/distroless/nodejs24-debian12@sha256:...
ARG NODE_IMAGE=node:24-bookworm-slim
ARG GO_IMAGE=golang:1.26-bookworm
ARG RUNTIME_IMAGE=runtime

# The package as it ships: built, packed, and installed from its archive with the versions of the lock file.
FROM ${NODE_IMAGE} AS app
WORKDIR /source
COPY package.json package-lock.json ./
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY . .
RUN node scripts/install-for-image.mjs /opt/policysync
WORKDIR /opt/policysync
RUN npm sbom --sbom-format=cyclonedx --sbom-type=application --omit=dev > sbom.cdx.json

# The OPA version that this release is tested with, from its source. Go checks its dependencies against its checksum database.
FROM ${GO_IMAGE} AS opa
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
ARG OPA_VERSION=1.22.3
ARG OPA_SUM=h1:d46phjoHHFSl8F2bC8nT8wFxuGEvZRvs8FhYWFqsJ2w=
RUN set -eu; \
    sum=$(go mod download -json "github.com/open-policy-agent/opa@v${OPA_VERSION}" | sed -n 's/^[[:space:]]*"Sum": "\(.*\)",*$/\1/p'); \
    if [ "$sum" != "$OPA_SUM" ]; then echo "OPA ${OPA_VERSION} has the sum $sum, not $OPA_SUM" >&2; exit 1; fi; \
    mkdir -p /out; \
    CGO_ENABLED=0 GOBIN=/out go install -trimpath -ldflags='-s -w' "github.com/open-policy-agent/opa@v${OPA_VERSION}"; \
    /out/opa version

# A file system with Node, the libraries that it loads, certificates and time zones, and nothing else: no shell, no package manager.
FROM ${NODE_IMAGE} AS root
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
# Debian keeps no older versions of a package: the digest of the base image is what pins.
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install --yes --no-install-recommends ca-certificates tzdata \
 && rm -rf /var/lib/apt/lists/*
RUN set -eu; \
    mkdir -p /root-fs/nodejs/bin /root-fs/etc/ssl/certs /root-fs/usr/share /root-fs/tmp /root-fs/var/lib/policysync; \
    node=$(readlink -f "$(command -v node)"); \
    cp "$node" /root-fs/nodejs/bin/node; \
    for file in $(ldd "$node" | awk '{ for (i = 1; i <= NF; i++) if ($i ~ /^\//) print $i }'); do \
      mkdir -p "/root-fs$(dirname "$file")"; \
      cp -L "$file" "/root-fs$file"; \
    done; \
    cp -L /etc/ssl/certs/ca-certificates.crt /root-fs/etc/ssl/certs/; \
    cp -R /usr/share/zoneinfo /root-fs/usr/share/; \
    echo 'policysync:x:10001:10001:PolicySync:/:/sbin/nologin' > /root-fs/etc/passwd; \
    echo 'policysync:x:10001:' > /root-fs/etc/group; \
    echo 'hosts: files dns' > /root-fs/etc/nsswitch.conf; \
    chmod 1777 /root-fs/tmp; \
    chown 10001:10001 /root-fs/var/lib/policysync; \
    chmod 0700 /root-fs/var/lib/policysync

FROM scratch AS runtime
COPY --from=root /root-fs /

# hadolint ignore=DL3006
FROM ${RUNTIME_IMAGE} AS client
COPY --from=opa /out/opa /usr/local/bin/opa
COPY --from=app /opt/policysync /opt/policysync

ARG VERSION=0.0.0-local
ARG REVISION=unknown
ARG CREATED=1970-01-01T00:00:00Z
ARG SOURCE=unknown
LABEL org.opencontainers.image.title="PolicySync client" \
      org.opencontainers.image.description="Keeps the OPA inside this container current with policy and data" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.source="${SOURCE}"
ENV NODE_ENV=production \
    XDG_CACHE_HOME=/tmp \
    XDG_STATE_HOME=/var/lib/policysync \
    SYNC_CLIENT_API_SERVER_HOST=0.0.0.0 \
    SYNC_ENGINE=inline \
    SYNC_INLINE_ENGINE_EXEC_PATH=/usr/local/bin/opa \
    SYNC_INLINE_ENGINE_CONFIG='{"addr":"0.0.0.0:8181"}'
# Everything else may be read-only: --read-only --tmpfs /tmp. The backup of offline mode is below /var/lib/policysync.
VOLUME ["/var/lib/policysync", "/tmp"]
EXPOSE 7000 8181
WORKDIR /var/lib/policysync
USER 10001:10001
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
  CMD ["/nodejs/bin/node", "/opt/policysync/node_modules/policysync/dist/cli/policysync.js", "healthcheck", "client"]
ENTRYPOINT ["/nodejs/bin/node", "/opt/policysync/node_modules/policysync/dist/cli/policysync.js"]
CMD ["client"]
