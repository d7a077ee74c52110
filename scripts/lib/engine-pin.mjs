/** Where the pinned OPA is named in the source. */
const VERSION_LINE = /^(export const OPA_VERSION = ')[^']*(';)$/m;
const SUM_LINE = /^( {2}'?([\w.]+)'?: ')(?:[0-9a-f]{64})?(',)$/gm;

/** The source of opa-version.ts with another version, and with its sums; one that is not known is empty, and its asset is not downloaded. */
export function withPinnedOpa(source, version, sums) {
  return source
    .replace(VERSION_LINE, `$1${version}$2`)
    .replace(SUM_LINE, (_line, before, asset, after) => `${before}${sums[asset] ?? ''}${after}`);
}

/** The assets whose sums the source has. */
export function pinnedAssets(source) {
  return [...source.matchAll(SUM_LINE)].map(([, , asset]) => asset);
}

/** The sums that are published beside the assets of a release, by asset; an asset whose sum cannot be had is missing. */
export async function publishedSums(assets, baseUrl, version) {
  const found = await Promise.all(
    assets.map(async (asset) => {
      try {
        const response = await fetch(`${baseUrl}/v${version}/${asset}.sha256`, { signal: AbortSignal.timeout(30_000) });
        const sum = /^[0-9a-f]{64}\b/.exec(await response.text())?.[0];
        return response.ok && sum !== undefined ? [[asset, sum]] : [];
      } catch {
        return []; // the caller says which are missing
      }
    }),
  );
  return Object.fromEntries(found.flat());
}
