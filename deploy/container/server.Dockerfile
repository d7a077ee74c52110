# The sync server. Build it from the top folder of the repository:
#
#   docker build -f deploy/container/server.Dockerfile -t policysync/server:local .
#
# The base images are build arguments. For a build that can be repeated give them with their digest, as the image workflow does:
#   --build-arg NODE_IMAGE=node:24-bookworm-slim@sha256:...
ARG NODE_IMAGE=node:24-bookworm-slim

# The package as it ships: built, packed, and installed from its archive with the versions of the lock file.
FROM ${NODE_IMAGE} AS app
WORKDIR /source
COPY package.json package-lock.json ./
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY . .
RUN node scripts/install-for-image.mjs /opt/policysync
WORKDIR /opt/policysync
RUN npm sbom --sbom-format=cyclonedx --sbom-type=application --omit=dev > sbom.cdx.json

FROM ${NODE_IMAGE} AS server
# git and ssh read the policy repository; tini collects processes that git leaves behind.
# Debian keeps no older versions of a package: the digest of the base image is what pins.
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install --yes --no-install-recommends ca-certificates git openssh-client tini \
 && rm -rf /var/lib/apt/lists/* \
 && groupadd --gid 10001 policysync \
 && useradd --uid 10001 --gid 10001 --home-dir /var/lib/policysync --no-create-home --shell /usr/sbin/nologin policysync \
 && install --directory --owner=10001 --group=10001 --mode=0700 /var/lib/policysync
COPY --from=app /opt/policysync /opt/policysync

ARG VERSION=0.0.0-local
ARG REVISION=unknown
ARG CREATED=1970-01-01T00:00:00Z
ARG SOURCE=unknown
LABEL org.opencontainers.image.title="PolicySync server" \
      org.opencontainers.image.description="Follows a policy repository, keeps the log of data updates, and tells its clients" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.source="${SOURCE}"
ENV NODE_ENV=production \
    PATH=/opt/policysync/node_modules/.bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    XDG_CACHE_HOME=/tmp \
    SYNC_SERVER_HOST=0.0.0.0 \
    SYNC_STATE_DIR=/var/lib/policysync
# Everything else may be read-only: --read-only --tmpfs /tmp.
VOLUME ["/var/lib/policysync", "/tmp"]
EXPOSE 7002
WORKDIR /var/lib/policysync
USER 10001:10001
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 CMD ["policysync", "healthcheck", "server"]
ENTRYPOINT ["tini", "--", "policysync"]
CMD ["server"]
