/** The OPA release that this version of PolicySync was tested with and gets where none is installed. */
export const OPA_VERSION = '1.22.0';

/** The oldest installed OPA that is used: 1.0.0 made Rego v1 the default and brought `--v0-compatible`. */
export const OPA_MIN_VERSION = '1.0.0';

/** Where official releases are; `/v<version>/<asset>` follows. */
export const OPA_DOWNLOAD_BASE_URL = 'https://openpolicyagent.org/downloads';

/** The Go package that `go install` builds. */
export const OPA_GO_PACKAGE = 'github.com/open-policy-agent/opa';

/**
 * Hex SHA-256 of each official asset of {@link OPA_VERSION} that was verified against the release itself. A download is
 * only ever made for an asset that stands here: an unverified executable is never run. An asset that is missing is got
 * with Go, whose checksum database verifies the same source. To add one: take the `<asset>.sha256` that is published
 * beside the asset over two separate networks, compare, and write it here in the same commit as a new OPA_VERSION.
 */
export const OPA_SHA256: Readonly<Record<string, string>> = {};

/** An operating system and processor in Node's words (`process.platform`, `process.arch`). */
export interface Platform {
  os: string;
  arch: string;
}

const ASSETS: Readonly<Record<string, string>> = {
  'linux/x64': 'opa_linux_amd64_static',
  'linux/arm64': 'opa_linux_arm64_static',
  'darwin/x64': 'opa_darwin_amd64',
  'darwin/arm64': 'opa_darwin_arm64_static',
  'win32/x64': 'opa_windows_amd64.exe',
};

/** Name of the official release's file for a platform; undefined where there is none. */
export function opaAsset(platform: Platform): string | undefined {
  return ASSETS[`${platform.os}/${platform.arch}`];
}

/** Name of the executable in the cache folder. */
export function opaFileName(os: string): string {
  return os === 'win32' ? 'opa.exe' : 'opa';
}
